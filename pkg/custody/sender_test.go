package custody_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/custody"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestSenderDoesNotKeepTheAnswer acknowledges while Redis is slow.
func TestSenderDoesNotKeepTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(custody.InboxFirst)
		r.queue.sendTakes = 100 * time.Millisecond
		start := time.Now()
		if _, err := r.Enqueue(t.Context(), webhook.Event{}); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took > 0 {
			t.Errorf("Enqueue took %s, want it not to wait for what is sent", took)
		}
		r.Sender.Wait()
		if len(r.queue.sent) != 1 || len(r.inbox.unsent) != 0 {
			t.Errorf("sent %v, unsent %v, want one event sent", r.queue.sent, r.inbox.unsent)
		}
	})
}

// TestSenderGathers sends together what comes while a batch is under way, and
// each source's on its own.
func TestSenderGathers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(custody.InboxFirst)
		r.queue.sendTakes = 10 * time.Millisecond
		for n := range 300 {
			ev := webhook.Event{Source: "a", ID: fmt.Sprint(n), Body: []byte("{}")}
			if _, err := r.Enqueue(t.Context(), ev); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		if _, err := r.Enqueue(t.Context(), webhook.Event{Source: "b"}); err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		r.Sender.Wait()
		if took := time.Since(start); took != 40*time.Millisecond {
			t.Errorf("sending took %s, want four batches one after the other", took)
		}
		sizes := map[int]int{}
		next := 0
		for _, batch := range r.queue.sent {
			sizes[len(batch)]++
			for _, ev := range batch {
				if ev.Body != nil {
					t.Errorf("%s is sent with its body, which would stay in memory", ev.ID)
				}
				if ev.Source == "a" {
					if ev.ID != fmt.Sprint(next) {
						t.Errorf("%s is sent as number %d", ev.ID, next)
					}
					next++
				}
			}
		}
		if next != 300 || sizes[1] != 2 || sizes[128] != 2 || sizes[43] != 1 {
			t.Errorf("%d events in batches of sizes %v, want 1, 128, 128, 43, and 1 of the other source", next, sizes)
		}
	})
}

// TestSenderPaces sends the first event at once, and those that come soon after
// it together, though Redis is quick.
func TestSenderPaces(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(custody.InboxFirst)
		for n := range 4 {
			if _, err := r.Enqueue(t.Context(), webhook.Event{}); err != nil {
				t.Fatal(err)
			}
			if synctest.Wait(); n == 0 && len(r.queue.sent) != 1 {
				t.Errorf("sent %v, want the first event at once", r.queue.sent)
			}
		}
		time.Sleep(10 * time.Millisecond)
		if synctest.Wait(); len(r.queue.sent) != 2 || len(r.queue.sent[1]) != 3 {
			t.Errorf("sent %v within 10 ms, want the other three together", r.queue.sent)
		}
		r.Sender.Wait()
	})
}

// TestSenderFull hands back what has no room any more.
func TestSenderFull(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(custody.InboxFirst)
		r.queue.sendTakes = time.Millisecond
		for n := range 1 + 4096 + 10 {
			if _, err := r.Enqueue(t.Context(), webhook.Event{}); err != nil {
				t.Fatal(err)
			}
			if n == 0 {
				synctest.Wait() // it is under way
			}
		}
		if len(r.inbox.unsent) != 10 {
			t.Errorf("%d events are handed back, want 10", len(r.inbox.unsent))
		}
		r.Sender.Wait()
	})
}

// TestSenderPartly hands back those of a batch that were not sent.
func TestSenderPartly(t *testing.T) {
	t.Parallel()
	r := newRig(custody.InboxFirst)
	r.Sender.Use(halfQueue{r.queue})
	for n := range 6 {
		if _, err := r.Enqueue(t.Context(), webhook.Event{Source: fmt.Sprint(n)}); err != nil {
			t.Fatal(err)
		}
	}
	r.Sender.Wait()
	if len(r.inbox.unsent) != 3 {
		t.Errorf("%d events are handed back, want those that were not sent", len(r.inbox.unsent))
	}
	for _, ev := range r.inbox.unsent {
		if ev.Source >= "3" {
			t.Errorf("%s is handed back, and was sent", ev.Source)
		}
	}
}

// A halfQueue sends for some sources.
type halfQueue struct{ *fakeStore }

func (halfQueue) EnqueueKeys(_ context.Context, events []webhook.Event) []error {
	errs := make([]error, len(events))
	for i, ev := range events {
		if ev.Source < "3" {
			errs[i] = errors.New("no")
		}
	}
	return errs
}
