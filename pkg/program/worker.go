package program

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/handler/payments"
	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/lock"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/sweeper"
	"github.com/hookonce/hookonce/pkg/telemetry"
	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

// Worker runs the handlers of events that are on the queue, until ctx ends.
// Then it takes no more, and gives back what does not finish in time.
func Worker(ctx context.Context, o Options) error {
	if asked, err := o.help(config.Worker{}); asked || err != nil {
		return err
	}
	cfg, err := config.ReadWorker(o.Environ, slices.Sorted(maps.Keys(o.Handlers))...)
	if err != nil {
		return err
	}
	log := telemetry.NewLog(o.Stderr, cfg.Log.Level, cfg.Log.Format).With("program", "worker")
	metrics := telemetry.NewMetrics()
	warn(ctx, log, cfg.Warnings)
	settings := queueSettings(cfg.Sources)

	rdb, err := queue.Dial(cfg.RedisURL, queue.WorkerProfile(settings))
	if err != nil {
		return err
	}
	defer rdb.Close()
	store, err := postgres.Open(ctx, cfg.DatabaseURL, connections(cfg.Sources))
	if err != nil {
		return err
	}
	defer closeSoon(store)
	store.CompareBy(sameBody(cfg.Sources))
	exam := newExam(rdb, store, judgement{AllowEviction: cfg.AllowEviction, Persistent: cfg.Persistent}, log)
	if err := exam.start(ctx); err != nil {
		return err
	}

	router := &routes{}
	router.set(route(cfg.Sources, o.Handlers))
	reload := &reloader{o.Hangup, metrics, log, func(ctx context.Context) error { return router.readWorker(ctx, o, log, cfg.Sources) }}
	w := &worker.Worker{
		Name:  workerName(),
		Lock:  lock.New(rdb),
		Store: store,
		Attempt: func(ctx context.Context, c webhook.Claim) error {
			return store.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error { return router.current.Load().Handle(ctx, tx, c.Event) })
		},
		Terms:   terms(cfg.Sources, cfg.Allowance),
		Backoff: worker.Backoff{Min: cfg.RetryMin, Max: cfg.RetryMax, Rand: rand.Float64},
		Away:    worker.Away{Probe: time.Second, Patience: 15 * time.Second},
		Observe: func(r worker.Report) { observeTask(metrics, r) },
		Log:     log,
	}
	memory := queue.NewMemory(rdb, log)
	sweep := &sweeper.Sweeper{
		Store:   store,
		Queue:   sweptQueue{queue.NewRepairer(rdb), queue.NewClient(rdb, settings), memory},
		Sources: cfg.Sources,
		Known:   cfg.Known,
		Every:   cfg.SweepEvery,
		Observe: func(r sweeper.Report) { observeSweep(metrics, r) },
		Log:     log,
	}
	ops := httpserve.Ops(metrics.Handler(), exam.redisCheck(), exam.postgresCheck())

	_, opsListener, err := listen(ctx, "", cfg.OpsAddr)
	if err != nil {
		return err
	}
	log.InfoContext(ctx, "working", "worker", w.Name, "ops", opsListener.Addr().String(), "sources", slices.Sorted(maps.Keys(settings)))
	if o.Listening != nil {
		o.Listening(nil, opsListener.Addr())
	}
	return together(ctx,
		queue.NewServer(rdb, settings, w, log).Serve,
		sweep.Run,
		memory.Run,
		exam.Run,
		reload.Run,
		func(ctx context.Context) error { return httpserve.Serve(ctx, opsListener, ops, log) },
	)
}

// connections is the size of the worker's pool: one for each attempt, to a
// point at which Postgres works no faster, and a few to settle with.
func connections(sources []source.Source) int {
	sum := 0
	for _, s := range sources {
		sum += s.Concurrency
	}
	return min(sum, 32) + 4
}

// closeSoon closes the store, but does not wait for a handler that ignores its
// context: the end of the process cuts its connection.
func closeSoon(store *postgres.Store) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		store.Close()
	}()
	select {
	case <-done:
	case <-time.After(time.Second):
	}
}

// sweptQueue is the queue as the sweeper sees it.
type sweptQueue struct {
	*queue.Repairer
	*queue.Client
	*queue.Memory
}

func terms(sources []source.Source, allowance time.Duration) map[string]webhook.Terms {
	t := map[string]webhook.Terms{}
	for _, s := range sources {
		t[s.Name] = webhook.Terms{Timeout: s.Timeout, Allowance: allowance, MaxRetry: s.MaxRetry}
	}
	return t
}

// route builds the handlers that the sources name. config has checked the names.
func route(sources []source.Source, own map[string]handler.Handler) handler.Router {
	router := handler.Router{}
	for _, s := range sources {
		for _, rule := range s.Handlers {
			h := own[rule.Handler]
			if h == nil {
				h = payments.New(rule.Amount)
			}
			router[s.Name] = append(router[s.Name], handler.Route{Match: rule.Match, Handler: h})
		}
	}
	return router
}

func observeTask(m *telemetry.Metrics, r worker.Report) {
	m.Attempt(r.Source, string(r.Outcome), string(r.Kind))
	switch r.Outcome {
	case worker.Duplicate:
		m.Duplicate(r.Source, "postgres")
	case worker.LockBusy:
		m.Duplicate(r.Source, "lock")
		m.LockBusy(r.Source)
	case worker.NoRow:
		m.NoRow(r.Source)
	case worker.Fenced:
		m.Fenced(r.Source)
	case worker.Dead:
		m.Dead(r.Source, string(r.Kind))
	}
	if r.Kind == webhook.KindStuck {
		m.Stuck(r.Source)
	}
	if r.LockSkipped {
		m.LockSkipped(r.Source)
	}
	if r.OtherBody {
		m.Conflict(r.Source)
	}
	if r.Wait > 0 {
		m.QueueWait(r.Source, r.Wait)
	}
	if r.Handler > 0 {
		m.HandlerTime(r.Source, r.Handler)
	}
}

func observeSweep(m *telemetry.Metrics, r sweeper.Report) {
	m.Swept(r.Source, "overdue", r.Overdue)
	m.Swept(r.Source, "sent", r.Sent)
	m.Swept(r.Source, "unstuck", r.Unstuck)
	m.Swept(r.Source, "recalled", r.Recalled)
	m.Swept(r.Source, "trimmed", r.Trimmed)
	m.Swept(r.Source, "purged", r.Purged)
	if r.Strays != nil {
		m.Strays(r.Strays)
	}
}
