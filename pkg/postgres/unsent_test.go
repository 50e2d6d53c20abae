package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestUnsent makes due at once what could not be sent for, and nothing else.
func TestUnsent(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for status, i := range map[webhook.Status]int{webhook.Received: 1, webhook.Failed: 2, webhook.Processing: 3, webhook.Completed: 4, webhook.Dead: 5} {
		f.fill(t, "shop", status, 1, time.Hour)
		f.exec(t, `UPDATE received_events SET event_id = $1 WHERE event_id = 'e-1'`, fmt.Sprint("s-", i))
	}
	f.fill(t, "shop", webhook.Received, 3, time.Hour)
	f.fill(t, "bank", webhook.Received, 1, time.Hour)
	f.hold(t, `SELECT FROM received_events WHERE source = 'shop' AND event_id = 'e-3' FOR UPDATE`)
	b := f.newBox(t)
	for _, id := range []string{"s-1", "s-2", "s-3", "s-4", "s-5", "e-3", "none", "e-2"} {
		b.Unsent(webhook.Event{Source: "shop", ID: id})
	}
	b.run()
	eventually(t, "the last is due", func() bool {
		return query[bool](t, f, `SELECT sweep_at <= clock_timestamp() FROM received_events WHERE source = 'shop' AND event_id = 'e-2'`)
	})
	if got := ids(f.overdue(t, 10, "shop", "bank")); fmt.Sprint(got) != "[e-2 s-1]" {
		t.Errorf("overdue are %v, want those that wait and nobody holds", got)
	}
}

// TestHasten gives back what a sweep took and could not send for, and takes no
// step back of its own.
func TestHasten(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.fill(t, "shop", webhook.Received, 2, -time.Minute)
	f.fill(t, "bank", webhook.Failed, 2, -time.Minute)
	f.exec(t, `UPDATE received_events SET sweeps = 3 WHERE event_id = 'e-1'`)
	for range 2 {
		taken := f.overdue(t, 10, "shop", "bank")
		if len(taken) != 4 {
			t.Fatalf("overdue are %v, want all four", ids(taken))
		}
		if err := f.Hasten(t.Context(), taken); err != nil {
			t.Fatal(err)
		}
	}
	if got := query[int](t, f, `SELECT sum(sweeps) FROM received_events`); got != 2*3 {
		t.Errorf("sweeps add up to %d, want what they were", got)
	}
}
