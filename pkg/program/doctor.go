package program

import (
	"context"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/doctor"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/source"
)

// Doctor looks at the stores as programs with this environment do when they
// start, and at what asynq holds besides. A store that is away is a finding.
func Doctor(ctx context.Context, environ []string) ([]doctor.Finding, error) {
	cfg, err := config.ReadStores(environ)
	if err != nil {
		return nil, err
	}
	sources, found := readSources(environ)
	rdb, err := queue.Dial(cfg.RedisURL, queue.Profile{Read: examTimeout, Pool: 4})
	if err != nil {
		return nil, err
	}
	defer rdb.Close()
	store, err := postgres.Open(ctx, cfg.DatabaseURL, connections(sources))
	if err != nil {
		return nil, err
	}
	defer store.Close()

	j := judgement{Inbox: cfg.Ack == "inbox", AllowEviction: cfg.AllowEviction, Persistent: cfg.Persistent}
	consult := func(name string, look func(context.Context) ([]doctor.Finding, error)) bool {
		ctx, cancel := context.WithTimeout(ctx, examTimeout)
		defer cancel()
		more, err := look(ctx)
		if err != nil {
			more = []doctor.Finding{doctor.Away(name, err)}
		}
		found = append(found, more...)
		return err == nil
	}
	if consult("redis", func(ctx context.Context) ([]doctor.Finding, error) { return examineRedis(ctx, rdb, j) }) {
		consult("queues", func(ctx context.Context) ([]doctor.Finding, error) { return examineQueues(ctx, rdb) })
	}
	if consult("postgres", func(ctx context.Context) ([]doctor.Finding, error) { return examinePostgres(ctx, store, j) }) {
		found = append(found, examineAttempts(ctx, store, sources)...)
	}
	return found, nil
}

// readSources takes the default source for those that cannot be read: secrets
// are often in the environment of the programs alone.
func readSources(environ []string) ([]source.Source, []doctor.Finding) {
	sources, err := config.ReadSources(environ)
	if err != nil {
		return []source.Source{source.Default()}, []doctor.Finding{{
			Level: doctor.Note, Subject: "sources", Text: "they cannot be read here, so the size of a worker's pool is a guess: " + doctor.Line(err),
			Fix: "give this command the environment of the worker",
		}}
	}
	return sources, nil
}

// examineAttempts finds nothing if it cannot: why not was found before.
func examineAttempts(ctx context.Context, store *postgres.Store, sources []source.Source) []doctor.Finding {
	ctx, cancel := context.WithTimeout(ctx, examTimeout)
	defer cancel()
	times, err := store.AttemptTimes(ctx)
	if err != nil {
		return nil
	}
	timeouts := map[string]time.Duration{}
	for _, s := range sources {
		timeouts[s.Name] = s.Timeout
	}
	var f doctor.Facts
	for _, t := range times {
		f.Attempts = append(f.Attempts, doctor.Attempts{Source: t.Source, Events: t.Events, P99: t.P99, Timeout: timeouts[t.Source]})
	}
	return doctor.Check(f)
}

func examineQueues(ctx context.Context, rdb redis.UniversalClient) ([]doctor.Finding, error) {
	queues, err := queue.ReadQueues(ctx, rdb)
	if err != nil {
		return nil, err
	}
	var f doctor.Facts
	for _, q := range queues {
		f.Queues = append(f.Queues, doctor.Queue(q))
	}
	return doctor.Check(f), nil
}
