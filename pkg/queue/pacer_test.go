package queue_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
)

// A serverError is an answer of Redis.
type serverError string

func (e serverError) Error() string { return string(e) }
func (serverError) RedisError()     {}

func fetch(source string) redis.Cmder {
	p := "asynq:{" + source + "}:"
	return redis.NewCmd(context.Background(), "evalsha", "0123", 4, p+"pending", p+"paused", p+"active", p+"lease", 1, p+"t:")
}

// held is how long the pacer keeps the answer err back.
func held(t *testing.T, pacer redis.Hook, cmd redis.Cmder, err error) time.Duration {
	t.Helper()
	start := time.Now()
	got := pacer.ProcessHook(func(context.Context, redis.Cmder) error { return err })(t.Context(), cmd)
	if !errors.Is(got, err) {
		t.Errorf("hook returned %v, want %v", got, err)
	}
	return time.Since(start)
}

func TestFetchPacer(t *testing.T) {
	t.Parallel()
	oom := serverError("OOM command not allowed when used memory > 'maxmemory'.")
	noScript := serverError("NOSCRIPT No matching script.")
	other := redis.NewCmd(context.Background(), "evalsha", "0123", 2, "asynq:{a}:t:1", "asynq:{a}:pending")
	steps := []struct {
		name string
		cmd  redis.Cmder
		err  error
		want time.Duration
	}{
		{"well", fetch("a"), nil, 0},
		{"empty", fetch("a"), redis.Nil, 0},
		{"script unknown, held since it was empty", fetch("a"), noScript, 5 * time.Second},
		{"first", fetch("a"), oom, 50 * time.Millisecond},
		{"second", fetch("a"), oom, 100 * time.Millisecond},
		{"script unknown in between", fetch("a"), noScript, 0},
		{"third", fetch("a"), oom, 200 * time.Millisecond},
		{"of another queue", fetch("b"), oom, 50 * time.Millisecond},
		{"of no fetch", other, oom, 0},
		{"fourth", fetch("a"), oom, 400 * time.Millisecond},
		{"fifth, of the network", fetch("a"), errors.New("connection refused"), 800 * time.Millisecond},
		{"sixth", fetch("a"), oom, time.Second},
		{"seventh", fetch("a"), oom, time.Second},
		{"well again", fetch("a"), redis.Nil, 0},
		{"first again, held since it was empty", fetch("a"), oom, 5*time.Second + 50*time.Millisecond},
	}
	synctest.Test(t, func(t *testing.T) {
		pacer := newFetchPacer(t.Context())
		for _, s := range steps {
			if got := held(t, pacer, s.cmd, s.err); got != s.want {
				t.Errorf("%s: held for %s, want %s", s.name, got, s.want)
			}
		}
	})
}

func newFetchPacer(ctx context.Context) redis.Hook {
	return queue.NewFetchPacer(ctx, queue.NewPoller(ctx, nil, nil))
}

// TestFetchPacerStops answers at once when the server is to stop, and fetches
// nothing any more.
func TestFetchPacerStops(t *testing.T) {
	t.Parallel()
	for _, first := range []error{serverError("OOM"), redis.Nil, nil} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			pacer := newFetchPacer(ctx)
			go func() {
				time.Sleep(20 * time.Millisecond)
				cancel()
			}()
			start := time.Now()
			fetches := 0
			for range 3 {
				pacer.ProcessHook(func(context.Context, redis.Cmder) error {
					fetches++
					time.Sleep(15 * time.Millisecond)
					return first
				})(t.Context(), fetch("a"))
			}
			if fetches == 3 || time.Since(start) > 40*time.Millisecond {
				t.Errorf("after %v: %d fetches in %s", first, fetches, time.Since(start))
			}
		})
	}
}

// A Redis that is full refuses to hand out tasks: that must not spin.
func TestFullRedis(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	var scripts, fetches atomic.Int32
	count := hook{before: func(cmd redis.Cmder) {
		if cmd.Name() == "evalsha" || cmd.Name() == "eval" {
			scripts.Add(1)
		}
		if _, ok := queue.Fetched(cmd); ok {
			fetches.Add(1)
		}
	}}
	p := new(processor)
	r.serve(p, func(_ *queue.Server, rdb redis.UniversalClient) { rdb.AddHook(count) })
	r.wantOutcome(r.event("1", "{}"), "accepted")
	r.awaitState("1", completed)

	if err := r.inspector.PauseQueue(r.source); err != nil {
		t.Fatal(err)
	}
	r.wantOutcome(r.event("2", "{}"), "accepted")
	r.limit("1")
	if err := r.inspector.UnpauseQueue(r.source); err != nil {
		t.Fatal(err)
	}
	scripts.Store(0)
	fetches.Store(0)
	time.Sleep(2 * time.Second) // the rate is what is measured
	if n := scripts.Load(); n >= 60 {
		t.Errorf("%d scripts in 2 s on a full Redis, want < 60", n)
	}
	if fetches.Load() < 3 {
		t.Errorf("%d fetches in 2 s on a full Redis: is it probed at all?", fetches.Load())
	}
	r.limit("0")
	r.awaitState("2", completed)
}

func (r *rig) limit(bytes string) {
	r.t.Helper()
	if err := r.rdb.ConfigSet(r.t.Context(), "maxmemory", bytes).Err(); err != nil {
		r.t.Fatal(err)
	}
}
