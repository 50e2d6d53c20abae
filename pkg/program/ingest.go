package program

import (
	"context"
	"log/slog"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/rate"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/telemetry"
)

// Ingest receives webhooks and puts them on the queue, until ctx ends. Then it
// answers what it has read.
func Ingest(ctx context.Context, o Options) error {
	if asked, err := o.help(config.Ingest{}); asked || err != nil {
		return err
	}
	cfg, err := config.ReadIngest(o.Environ)
	if err != nil {
		return err
	}
	log := telemetry.NewLog(o.Stderr, cfg.Log.Level, cfg.Log.Format).With("program", "ingest")
	metrics := telemetry.NewMetrics()
	warn(ctx, log, cfg.Warnings)

	rdb, err := queue.Dial(cfg.RedisURL, queue.IngestProfile(cfg.AckTimeout))
	if err != nil {
		return err
	}
	defer rdb.Close()

	k := &keeping{cfg: cfg, rdb: rdb, memory: queue.NewMemory(rdb, log), log: log}
	if err := k.open(ctx, metrics); err != nil {
		return err
	}
	defer k.close()
	k.exam = newExam(k.rdb, k.store, judgement{Inbox: cfg.Ack == "inbox", AllowEviction: cfg.AllowEviction, Persistent: cfg.Persistent}, log)
	if err := k.exam.start(ctx); err != nil {
		return err
	}

	bodies := ingest.NewBodies(int64(cfg.MaxBodyBytes))
	metrics.BodyBytes(bodies.InUse)
	limiter := rate.New(rdb)
	observe := func(r ingest.Report) { observeDelivery(metrics, r) }
	door := ingest.NewDoor(cfg.MaxInflight, time.Now, observe, log)
	public := &swap{}
	use := func(sources []source.Source) {
		public.set(ingest.New(ingest.Options{
			Queue:      k.holder(sources),
			Sources:    sources,
			AckTimeout: cfg.AckTimeout,
			Door:       door,
			Now:        time.Now,
			Observe:    observe,
			Log:        log,
			Proxies:    cfg.Trusted,
			Bodies:     bodies,
			Limiter:    limiter,
			Replays:    k.marks,
			Away:       k.keeper.Redis.Open,
		}))
		sayUnproven(ctx, log, sources)
	}
	use(cfg.Sources)
	inUse := cfg.Sources
	reload := &reloader{o.Hangup, metrics, log, func(ctx context.Context) error {
		sources, err := readIngest(ctx, o.Environ, log, inUse)
		if err == nil {
			inUse = sources
			use(sources)
		}
		return err
	}}
	ops := httpserve.Ops(metrics.Handler(), k.checks()...)

	publicListener, opsListener, err := listen(ctx, cfg.Addr, cfg.OpsAddr)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "listening", "addr", publicListener.Addr().String(), "ops", opsListener.Addr().String(), "sources", len(cfg.Sources), "ack", cfg.Ack)
	if o.Listening != nil {
		o.Listening(publicListener.Addr(), opsListener.Addr())
	}
	return k.serve(ctx, func(ctx context.Context) error {
		return together(ctx,
			reload.Run,
			func(ctx context.Context) error { return httpserve.Serve(ctx, door.Listen(publicListener), public, log) },
			func(ctx context.Context) error { return httpserve.Serve(ctx, opsListener, ops, log) },
		)
	})
}

// sayUnproven says of which providers nobody but us signed a delivery yet.
func sayUnproven(ctx context.Context, log *slog.Logger, sources []source.Source) {
	for _, s := range sources {
		if s.Unproven {
			log.WarnContext(ctx, "this provider is unproven: send a test event from it before you rely on it, and see PROVIDERS.md",
				"source", s.Name, "provider", s.Provider)
		}
	}
}

func observeDelivery(m *telemetry.Metrics, r ingest.Report) {
	m.Delivery(r.Source, string(r.Outcome), r.Took)
	switch {
	case r.Reason != "":
		m.Refusal(r.Source, r.Reason)
	case r.Layer != "":
		m.Duplicate(r.Source, r.Layer)
	}
	if r.NoReplayCheck {
		m.Unchecked(r.Source, "replay")
	}
	if r.NoRateLimit {
		m.Unchecked(r.Source, "rate_limit")
	}
	if r.OtherBody {
		m.Conflict(r.Source)
	}
}
