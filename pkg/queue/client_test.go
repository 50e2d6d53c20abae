package queue_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"maps"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

const (
	pending   = asynq.TaskStatePending
	active    = asynq.TaskStateActive
	scheduled = asynq.TaskStateScheduled
	retry     = asynq.TaskStateRetry
	completed = asynq.TaskStateCompleted
	archived  = asynq.TaskStateArchived
)

func TestEnqueue(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]time.Duration{"kept": 10 * time.Minute, "not kept": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.settings[r.source] = queue.Settings{Timeout: 1500 * time.Millisecond, Retention: retention}
			ev := r.event("a/b", "\x00\xff {\"n\": 1}\r\n")
			ev.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			if got := r.enqueue(ev); got != (webhook.Receipt{Outcome: webhook.Accepted}) {
				t.Errorf("Enqueue = %+v, want accepted", got)
			}
			info := r.info("a/b")
			if !bytes.Equal(info.Payload, ev.Body) {
				t.Errorf("payload = %q, want %q", info.Payload, ev.Body)
			}
			wantHeaders := map[string]string{
				"event_id": "a/b", "event_type": "thing.made", "delivery": "delivery of a/b",
				"sha256": hex.EncodeToString(ev.SHA256[:]), "content_type": "application/json",
				"received_at": "2030-01-02T12:00:00.123456789Z", "traceparent": ev.TraceParent, "header-X-Kept": "yes",
			}
			if !maps.Equal(info.Headers, wantHeaders) {
				t.Errorf("headers = %v, want %v", info.Headers, wantHeaders)
			}
			if info.Type != "thing.made" || info.Queue != r.source || info.State != pending {
				t.Errorf("task = %s in %s, %s", info.Type, info.Queue, info.State)
			}
			// asynq's own timeout must not end an attempt before ours does.
			if info.MaxRetry != 1<<20 || info.Timeout != 22*time.Second || !info.Deadline.IsZero() || info.Retention != retention {
				t.Errorf("max retry %d, timeout %s, deadline %s, retention %s, want %d, 22s, none, %s",
					info.MaxRetry, info.Timeout, info.Deadline, info.Retention, 1<<20, retention)
			}
		})
	}
}

func TestEnqueueRace(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev := r.event("evt_1", "{}")
	var accepted, duplicate atomic.Int32
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			<-start
			receipt, err := r.client.Enqueue(t.Context(), ev)
			switch {
			case err != nil:
				t.Error(err)
			case receipt == webhook.Receipt{Outcome: webhook.Accepted}:
				accepted.Add(1)
			case receipt == webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}:
				duplicate.Add(1)
			default:
				t.Errorf("Enqueue = %+v", receipt)
			}
		})
	}
	close(start)
	wg.Wait()
	if accepted.Load() != 1 || duplicate.Load() != 49 {
		t.Errorf("accepted %d and refused %d, want 1 and 49", accepted.Load(), duplicate.Load())
	}
}

func TestEnqueueTwoSources(t *testing.T) {
	t.Parallel()
	a := newRig(t)
	b := rigOn(t, a.url, stacktest.Source(t))
	a.wantOutcome(a.event("evt_1", "{}"), webhook.Accepted)
	b.wantOutcome(b.event("evt_1", "{}"), webhook.Accepted)
	a.wantOutcome(a.event("evt_1", "{}"), webhook.Duplicate)
}

// HTTP lets bytes through that protobuf does not.
func TestEnqueueNotUTF8(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ev := r.event("evt_1", "{}")
	ev.ContentType = "text/\xff"
	ev.TraceParent = "\xff"
	ev.Headers = map[string]string{"X-Name": "Jos\xe9"}
	r.wantOutcome(ev, webhook.Accepted)
	h := r.info("evt_1").Headers
	if h["content_type"] != "text/\uFFFD" || h["header-X-Name"] != "Jos\uFFFD" {
		t.Errorf("headers = %q", h)
	}
}

// wantNotHeld enqueues ev, wants ErrNotHeld within a second, and returns it.
func wantNotHeld(t *testing.T, c *queue.Client, ev webhook.Event, deadline time.Duration) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), deadline)
	defer cancel()
	start := time.Now()
	receipt, err := c.Enqueue(ctx, ev)
	if took := time.Since(start); took > time.Second {
		t.Errorf("Enqueue took %s", took)
	}
	if !errors.Is(err, webhook.ErrNotHeld) || receipt != (webhook.Receipt{}) {
		t.Fatalf("Enqueue = %+v, %v, want ErrNotHeld", receipt, err)
	}
	if !strings.Contains(err.Error(), ev.Source+"/"+ev.ID) {
		t.Errorf("error %q does not name the event", err)
	}
	return err
}

func TestEnqueuePausedRedis(t *testing.T) {
	t.Parallel()
	r, server := privateRig(t)
	c := queue.NewClient(dial(t, r.url, queue.IngestProfile(800*time.Millisecond)), r.settings)
	if _, err := c.Enqueue(t.Context(), r.event("1", "{}")); err != nil {
		t.Fatal(err)
	}
	if err := server.Pause(); err != nil {
		t.Fatal(err)
	}
	wantNotHeld(t, c, r.event("1", "{}"), 300*time.Millisecond) // on the connection that is there
	wantNotHeld(t, c, r.event("2", "{}"), 300*time.Millisecond) // on a new one
	if err := server.Resume(); err != nil {
		t.Fatal(err)
	}
	r.eventually("Redis takes events again", func() bool {
		_, err := c.Enqueue(t.Context(), r.event("3", "{}"))
		return err == nil
	})
}

func TestEnqueueNoRedis(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // from now on connections are refused
	rdb := dial(t, "redis://"+ln.Addr().String(), queue.IngestProfile(800*time.Millisecond))
	wantNotHeld(t, queue.NewClient(rdb, nil), webhook.Event{Source: "any", ID: "1", Type: "t"}, 5*time.Second)
}

func TestEnqueueLostAnswer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.wantOutcome(r.event("other", "{}"), webhook.Accepted) // from now on Redis knows the script
	rdb := dial(t, stacktest.LoseAnswer(t, r.url, "evalsha", false), queue.IngestProfile(800*time.Millisecond))
	c := queue.NewClient(rdb, r.settings)
	ev := r.event("evt_1", "{}")
	wantNotHeld(t, c, ev, 300*time.Millisecond)
	receipt, err := c.Enqueue(t.Context(), ev)
	if err != nil || receipt != (webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}) {
		t.Errorf("second Enqueue = %+v, %v, want a duplicate", receipt, err)
	}
}
