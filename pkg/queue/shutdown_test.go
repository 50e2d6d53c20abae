package queue_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestServeEndsAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := new(processor)
	s := r.serve(p, nil)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	r.awaitState("evt_1", completed)
	start := time.Now()
	s.stop()
	if took := time.Since(start); took > 3*time.Second {
		t.Errorf("an idle server needed %s", took)
	}
}

func TestServeNoRedis(t *testing.T) {
	t.Parallel()
	rdb := dial(t, "redis://127.0.0.1:1", queue.WorkerProfile(nil))
	if err := queue.NewServer(rdb, nil, new(processor), nil).Serve(t.Context()); err == nil {
		t.Error("Serve starts without Redis")
	}
}

// An attempt that watches its context gives its task back; of one that does
// not, asynq does.
func TestServeShutdown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	deaf := make(chan struct{})
	t.Cleanup(func() { close(deaf) })
	var cause error
	var ended time.Time
	p := &processor{process: func(ctx context.Context, ev webhook.Event, _ int) error {
		if ev.ID == "deaf" {
			<-deaf
			return nil
		}
		<-ctx.Done()
		cause, ended = context.Cause(ctx), time.Now()
		return &webhook.RetryError{Err: cause}
	}}
	var lastFetch atomic.Int64
	s := r.serve(p, func(_ *queue.Server, rdb redis.UniversalClient) {
		rdb.AddHook(hook{before: func(cmd redis.Cmder) {
			if _, ok := queue.Fetched(cmd); ok {
				lastFetch.Store(time.Now().UnixNano())
			}
		}})
	})
	for _, id := range []string{"polite", "deaf"} {
		r.wantOutcome(r.event(id, "{}"), webhook.Accepted)
		r.awaitState(id, active)
	}
	s.end()
	end := time.Now()
	r.eventually("nothing is fetched any more", func() bool {
		return time.Since(time.Unix(0, lastFetch.Load())) > 500*time.Millisecond
	})
	if took := time.Since(end); took > 2*time.Second {
		t.Errorf("fetched for %s after the end", took)
	}
	r.wantOutcome(r.event("late", "{}"), webhook.Accepted)
	<-s.done
	if took := time.Since(end); s.err != nil || took < queue.Drain || took > 10*time.Second {
		t.Errorf("Serve = %v after %s, want nil after about 8 s", s.err, took)
	}
	if !errors.Is(cause, webhook.ErrShutdown) {
		t.Errorf("cause = %v, want ErrShutdown", cause)
	}
	if after := ended.Sub(end); after < queue.Drain || after > queue.Drain+time.Second {
		t.Errorf("the attempt's context ended after %s, want 6 s", after)
	}
	if got := r.info("late"); got.State != pending {
		t.Errorf("a task of after the end is %s", got.State)
	}
	if got := r.info("polite"); got.State != retry && got.State != pending || got.Retried != 0 || time.Until(got.NextProcessAt) > 0 {
		t.Errorf("the attempt that ended: %+v, want it to come back at once", got)
	}
	if got := r.info("deaf"); got.State != pending {
		t.Errorf("the attempt that did not end is %s, want pending", got.State)
	}
}

// asynq ends its context when it has lost its lease, or a person cancels the
// task. The attempt is good for as long as its own lease in Postgres.
func TestServeAttemptOutlivesAsynq(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t) // asynq cancels by id alone, in all queues of a Redis
	attempts := make(chan context.Context, 8)
	release := make(chan struct{})
	r.serve(&processor{process: func(ctx context.Context, _ webhook.Event, _ int) error {
		attempts <- ctx
		<-release
		return nil
	}}, nil)
	t.Cleanup(func() { close(release) }) // before the server's
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	attempt := <-attempts
	r.eventually("asynq lets go of the task", func() bool {
		if err := r.inspector.CancelProcessing("evt_1"); err != nil {
			t.Fatal(err)
		}
		return r.field("evt_1", "state") != "active"
	})
	if attempt.Err() != nil {
		t.Errorf("the attempt's context ended: %v", context.Cause(attempt))
	}
}

// A signal at a time at which Redis hangs must not let attempts run on: there
// is no more than 12 s of grace to give their rows back.
func TestServeShutdownPausedRedis(t *testing.T) {
	t.Parallel()
	r, server := privateRig(t)
	started, ended := make(chan struct{}, 1), make(chan time.Time, 1)
	s := r.serve(&processor{process: func(ctx context.Context, _ webhook.Event, _ int) error {
		started <- struct{}{}
		<-ctx.Done()
		ended <- time.Now()
		return &webhook.RetryError{Err: context.Cause(ctx)}
	}}, func(srv *queue.Server, _ redis.UniversalClient) { srv.RegisterEvery(10 * time.Millisecond) })
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	<-started // not when Redis says that it is active: that answer may still be on its way
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	s.end()
	end := time.Now()
	select {
	case at := <-ended:
		if after := at.Sub(end); after > queue.Drain+2*time.Second {
			t.Errorf("the attempt's context ended after %s", after)
		}
	case <-time.After(20 * time.Second):
		t.Error("the attempt's context does not end")
	}
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	s.stop()
	if got := r.info("evt_1"); got.State != retry && got.State != pending {
		t.Errorf("the task is %s", got.State)
	}
}

// A Redis that lost its data does not know the queues; asynq tells it of them
// once only.
func TestServeRegistersAgain(t *testing.T) {
	t.Parallel()
	r, _ := privateRig(t)
	p := new(processor)
	r.serve(p, func(srv *queue.Server, _ redis.UniversalClient) { srv.RegisterEvery(20 * time.Millisecond) })
	r.wantOutcome(r.event("1", "{}"), webhook.Accepted)
	r.awaitState("1", completed)
	if err := r.rdb.FlushAll(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	r.eventually("the queue is registered", r.registered)
	r.wantOutcome(r.event("1", "{}"), webhook.Accepted)
	r.awaitState("1", completed)
	if p.count() != 2 {
		t.Errorf("processed %d times, want 2", p.count())
	}
}

func TestServeMany(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := new(processor)
	s := r.serve(p, nil)
	var ids []string
	var wg sync.WaitGroup
	for i := range 50 {
		id := "evt_" + string(rune('A'+i))
		ids = append(ids, id)
		wg.Go(func() { r.enqueueTwice(id) })
	}
	wg.Wait()
	for _, id := range ids {
		r.awaitState(id, completed)
	}
	s.stop()
	var got []string
	for _, c := range p.calls {
		got = append(got, c.ev.ID)
	}
	slices.Sort(got)
	slices.Sort(ids)
	if !slices.Equal(got, ids) {
		t.Errorf("processed %q, want each once", got)
	}
}

func (r *rig) enqueueTwice(id string) {
	for range 2 {
		if _, err := r.client.Enqueue(r.t.Context(), r.event(id, "{}")); err != nil {
			r.t.Error(err)
		}
	}
}
