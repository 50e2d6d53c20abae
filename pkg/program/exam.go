package program

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/doctor"
	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
)

// A judgement is what findings depend on besides the stores.
type judgement struct {
	Inbox         bool // events are held by Postgres first
	AllowEviction bool // of REDIS_ALLOW_EVICTION
	Persistent    bool // of REDIS_PERSISTENT
}

func (j judgement) facts() doctor.Facts {
	return doctor.Facts{Inbox: j.Inbox, AllowEviction: j.AllowEviction, Persistent: j.Persistent}
}

func examineRedis(ctx context.Context, rdb redis.UniversalClient, j judgement) ([]doctor.Finding, error) {
	nodes, err := queue.ReadFacts(ctx, rdb)
	if err != nil {
		return nil, err
	}
	f := j.facts()
	for _, node := range nodes {
		f.Redis = append(f.Redis, doctor.Redis(node))
	}
	return doctor.Check(f), nil
}

func examinePostgres(ctx context.Context, store *postgres.Store, j judgement) ([]doctor.Finding, error) {
	latest, err := migrations.Latest()
	if err != nil {
		return nil, err
	}
	facts, err := store.ReadFacts(ctx)
	if err != nil {
		return nil, err
	}
	f, p := j.facts(), doctor.Postgres(facts)
	f.Postgres, f.Schema = &p, latest
	return doctor.Check(f), nil
}

// An exam looks at the stores of a program when it starts, and again now and
// then, so that /readyz can say what is wrong with a store that works.
type exam struct {
	redis    *subject
	postgres *subject // nil without a database
	log      *slog.Logger
}

// A subject is one of the stores.
type subject struct {
	name string
	ping func(context.Context) error
	look func(context.Context) ([]doctor.Finding, error)

	mu    sync.Mutex
	found []doctor.Finding // of the last time that it answered
}

const (
	examTimeout = 5 * time.Second
	examEvery   = 15 * time.Second
	examSoon    = 3 * time.Second // while a store has not answered yet
)

func newExam(rdb redis.UniversalClient, store *postgres.Store, j judgement, log *slog.Logger) *exam {
	e := &exam{log: log, redis: &subject{
		name: "redis",
		ping: func(ctx context.Context) error { return queue.Ping(ctx, rdb) },
		look: func(ctx context.Context) ([]doctor.Finding, error) { return examineRedis(ctx, rdb, j) },
	}}
	if store != nil {
		e.postgres = &subject{
			name: "postgres",
			ping: store.Ping,
			look: func(ctx context.Context) ([]doctor.Finding, error) { return examinePostgres(ctx, store, j) },
		}
	}
	return e
}

func (e *exam) subjects() []*subject {
	if e.postgres == nil {
		return []*subject{e.redis}
	}
	return []*subject{e.redis, e.postgres}
}

// start looks at all stores, logs what is wrong, and returns an error for what
// a program must not start with. A store that is away is none of that: it may
// come back.
func (e *exam) start(ctx context.Context) error {
	var wg sync.WaitGroup
	for _, s := range e.subjects() {
		wg.Go(func() { e.see(ctx, s) })
	}
	wg.Wait()
	var errs []error
	for _, s := range e.subjects() {
		for _, f := range s.last() {
			if f.Refuses {
				errs = append(errs, errors.New(f.String()))
			}
		}
	}
	return errors.Join(errs...)
}

// Run looks again and again until ctx ends.
func (e *exam) Run(ctx context.Context) error {
	for {
		wait := examEvery
		for _, s := range e.subjects() {
			if s.last() == nil {
				wait = examSoon
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		for _, s := range e.subjects() {
			e.see(ctx, s)
		}
	}
}

// see looks at one store. What is found at the first answer is logged.
func (e *exam) see(ctx context.Context, s *subject) {
	bounded, cancel := context.WithTimeout(ctx, examTimeout)
	defer cancel()
	found, err := s.look(bounded)
	known := s.last() != nil
	if err != nil {
		if !known && ctx.Err() == nil {
			e.log.ErrorContext(ctx, doctor.Away(s.name, err).String())
		}
		return
	}
	s.mu.Lock()
	s.found = found
	s.mu.Unlock()
	if known {
		return
	}
	for _, f := range found {
		switch f.Level {
		case doctor.Error:
			e.log.ErrorContext(ctx, f.String())
		case doctor.Warning:
			e.log.WarnContext(ctx, f.String())
		}
	}
}

func (s *subject) last() []doctor.Finding {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// note says what is wrong with stores that work, or "".
func (e *exam) note() string {
	var wrong []string
	for _, s := range e.subjects() {
		wrong = append(wrong, s.wrong()...)
	}
	return but(wrong)
}

func (s *subject) wrong() []string {
	var wrong []string
	for _, f := range s.last() {
		if f.Matters() {
			wrong = append(wrong, f.String())
		}
	}
	return wrong
}

func but(wrong []string) string {
	if wrong == nil {
		return ""
	}
	return "ok, but " + strings.Join(wrong, "; and ")
}

func (e *exam) redisCheck() httpserve.Check    { return e.redis.check() }
func (e *exam) postgresCheck() httpserve.Check { return e.postgres.check() }

func (s *subject) check() httpserve.Check {
	return httpserve.Check{Name: s.name, Run: func(ctx context.Context) (string, error) {
		if err := s.ping(ctx); err != nil {
			return "", err
		}
		return but(s.wrong()), nil
	}}
}
