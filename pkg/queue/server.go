package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Processor does the work. Its errors say what becomes of the task: see
// [webhook.DeadError] and [webhook.RetryError].
type Processor interface {
	// Process runs the event's next attempt. revive is the attempt of the death
	// that somebody had the event's archived task run again for, or 0.
	Process(ctx context.Context, ev webhook.Event, revive int) error
	// KeepConflict keeps a second body of an event.
	KeepConflict(ctx context.Context, ev webhook.Event) error
}

// Shutdown times: attempts get drain to finish, then their contexts end, and
// what is still there after abort is pushed back to its queue by asynq. A
// process needs 12 s of grace.
const (
	drain = 6 * time.Second
	abort = 8 * time.Second
)

const registerEvery = 10 * time.Second

// A Server hands the tasks of its sources to a Processor.
type Server struct {
	rdb       redis.UniversalClient
	settings  map[string]Settings
	processor Processor
	log       *slog.Logger
	inspector *asynq.Inspector

	registerEvery time.Duration
}

// NewServer returns a server of the sources in settings, on a client of its
// own that it does not close.
func NewServer(rdb redis.UniversalClient, settings map[string]Settings, p Processor, log *slog.Logger) *Server {
	return &Server{
		rdb: rdb, settings: settings, processor: p, log: log,
		inspector: asynq.NewInspectorFromRedisClient(rdb), registerEvery: registerEvery,
	}
}

// Serve works until ctx ends, and then shuts down: it stops fetching at once,
// lets attempts finish for 6 s, ends the others' contexts with the cause
// [webhook.ErrShutdown], and returns when all are settled or 8 s are over. A
// Redis that hangs is waited for as long as the client's profile says.
func (s *Server) Serve(ctx context.Context) error {
	if err := Ping(ctx, s.rdb); err != nil { // asynq would start without Redis, and say nothing
		return err
	}
	idle := newPoller(ctx, s.rdb, s.log)
	s.rdb.AddHook(newFetchPacer(ctx, idle))
	go idle.run(ctx)
	attempts, endAttempts := context.WithCancelCause(context.WithoutCancel(ctx))
	defer endAttempts(nil)
	var servers []*asynq.Server
	for _, source := range slices.Sorted(maps.Keys(s.settings)) {
		srv := asynq.NewServerFromRedisClient(s.rdb, s.config(source))
		if err := srv.Start(s.handler(attempts, source)); err != nil {
			stopAll(servers)
			return fmt.Errorf("serve %s: %w", source, err)
		}
		servers = append(servers, srv)
	}
	s.keepRegistered(ctx)
	defer time.AfterFunc(drain, func() { endAttempts(webhook.ErrShutdown) }).Stop()
	stopAll(servers)
	return nil
}

// stopAll stops servers side by side: each first fetches no more, then waits
// for its attempts.
func stopAll(servers []*asynq.Server) {
	var wg sync.WaitGroup
	for _, srv := range servers {
		wg.Go(func() {
			srv.Stop()
			srv.Shutdown()
		})
	}
	wg.Wait()
}

// keepRegistered returns when ctx ends.
func (s *Server) keepRegistered(ctx context.Context) {
	tick := time.NewTicker(s.registerEvery)
	defer tick.Stop()
	for {
		if err := s.register(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("queues are not registered: dashboards may not show them", "err", err)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// register has a deadline, since go-redis does not notice the end of a context
// while it waits for an answer: a Redis that hangs must not delay the end of
// attempts.
func (s *Server) register(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return register(ctx, s.rdb, slices.Collect(maps.Keys(s.settings))...)
}

// config sets how one source is served. asynq's own pause after it found a
// queue empty is short, since the poller holds what comes after it.
func (s *Server) config(source string) asynq.Config {
	forward := time.Second
	if len(s.settings) > 10 {
		forward = 5 * time.Second
	}
	return asynq.Config{
		Queues:                   map[string]int{source: 1},
		Concurrency:              s.settings[source].Concurrency,
		TaskCheckInterval:        10 * time.Millisecond,
		DelayedTaskCheckInterval: forward,
		ShutdownTimeout:          abort,
		RetryDelayFunc:           func(_ int, err error, _ *asynq.Task) time.Duration { return retryDelay(time.Now(), err) },
		IsFailure:                isFailure,
		Logger:                   logger{s.log.With("source", source)},
		LogLevel:                 asynq.WarnLevel,
	}
}

// handler runs one task. Its context ends with the server's attempts, and not
// with asynq's: that one ends when Redis is away for longer than asynq's lease,
// but the attempt is still good, by its own lease in Postgres.
func (s *Server) handler(attempts context.Context, source string) asynq.Handler {
	return asynq.HandlerFunc(func(ctx context.Context, t *asynq.Task) error {
		ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		defer cancel(nil)
		defer context.AfterFunc(attempts, func() { cancel(context.Cause(attempts)) })()
		ev, conflict, err := parseTask(source, t)
		if err != nil {
			s.log.Error("task cannot be read and is archived", "source", source, "err", err)
			return errors.Join(err, asynq.SkipRetry)
		}
		if conflict {
			return verdict(s.processor.KeepConflict(ctx, ev))
		}
		return s.process(ctx, ev)
	})
}

// process lets a person's Run of an archived task revive its event. asynq does
// not hand a task's last error to its handler, so it is asked for where it
// matters: before giving up on a leftover, and before a text that names a death
// is replaced by that of a mishap.
func (s *Server) process(ctx context.Context, ev webhook.Event) error {
	err := verdict(s.processor.Process(ctx, ev, 0))
	dead, isDead := errors.AsType[*webhook.DeadError](err)
	again, isAgain := errors.AsType[*webhook.RetryError](err)
	leftover, mishap := isDead && dead.Leftover, isAgain && !again.Failed
	if !leftover && !mishap {
		return err
	}
	death := s.deathOf(ctx, ev)
	switch {
	case isDead && death == dead.Attempt:
		err = verdict(s.processor.Process(ctx, ev, death))
		if again, ok := errors.AsType[*webhook.RetryError](err); ok && !again.Failed {
			return keepDeath(death, again)
		}
		return err
	case isAgain && death != 0:
		return keepDeath(death, again)
	}
	return err
}

func keepDeath(death int, again *webhook.RetryError) error {
	return told{&webhook.RetryError{After: again.After, Err: fmt.Errorf("%s%d: runs again: %w", deathText, death, again.Err)}}
}

// deathOf is the attempt of the death that the task was archived for, or 0.
func (s *Server) deathOf(ctx context.Context, ev webhook.Event) int {
	info, err := s.inspector.GetTaskInfo(ev.Source, taskID(ev.ID))
	if err != nil {
		s.log.WarnContext(ctx, "task's last error cannot be read", "source", ev.Source, "event_id", ev.ID, "err", err)
		return 0
	}
	return deathIn(info.LastErr)
}

// logger lets asynq write to our log.
type logger struct{ log *slog.Logger }

func (l logger) Debug(args ...any) { l.log.Debug(fmt.Sprint(args...)) }
func (l logger) Info(args ...any)  { l.log.Info(fmt.Sprint(args...)) }
func (l logger) Warn(args ...any)  { l.log.Warn(fmt.Sprint(args...)) }
func (l logger) Error(args ...any) { l.log.Error(fmt.Sprint(args...)) }
func (l logger) Fatal(args ...any) { l.log.Error(fmt.Sprint(args...)) } // run, not a library, ends the program
