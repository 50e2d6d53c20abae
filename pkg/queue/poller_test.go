package queue_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// fetches counts them.
func fetches(n *atomic.Int32) func(*queue.Server, redis.UniversalClient) {
	return func(_ *queue.Server, rdb redis.UniversalClient) {
		rdb.AddHook(hook{before: func(cmd redis.Cmder) {
			if _, ok := queue.Fetched(cmd); ok {
				n.Add(1)
			}
		}})
	}
}

// TestPollerSleeps lets twenty idle queues cost next to nothing, and each still
// gets its task at once.
func TestPollerSleeps(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const sources = 20
	var names []string
	for i := range sources {
		name := fmt.Sprintf("%s-%d", r.source, i)
		names = append(names, name)
		r.settings[name] = queue.Settings{Timeout: 15 * time.Second, Concurrency: 1}
	}
	p := new(processor)
	var n atomic.Int32
	r.serve(p, fetches(&n))
	r.eventually("each queue was found empty", func() bool { return n.Load() >= sources+1 })
	n.Store(0)
	time.Sleep(time.Second) // the rate is what is measured
	if got := n.Load(); got > 2*sources {
		t.Errorf("%d fetches of %d idle servers in 1 s, want none but those held for 5 s", got, sources+1)
	}
	for _, name := range names {
		ev := r.event("evt_1", "{}")
		ev.Source = name
		if _, err := queue.NewClient(r.rdb, r.settings).Enqueue(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	r.eventually("all are done", func() bool { return p.count() == sources })
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("done after %s: not woken, but after the longest hold", took)
	}
}

// TestPollerPaused does not spin on a queue that has tasks and gives none.
func TestPollerPaused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := new(processor)
	var n atomic.Int32
	r.serve(p, fetches(&n))
	r.eventually("the queue was found empty", func() bool { return n.Load() > 0 })
	if err := r.inspector.PauseQueue(r.source); err != nil {
		t.Fatal(err)
	}
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	time.Sleep(2 * time.Second) // the rate is what is measured
	if got := n.Load(); got > 6 {
		t.Errorf("%d fetches in 2 s from a queue that is paused", got)
	}
	if err := r.inspector.UnpauseQueue(r.source); err != nil {
		t.Fatal(err)
	}
	r.eventually("it is done", func() bool { return p.count() == 1 })
}
