package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestClaimTable walks the claim table: what a task meets, and what it is told.
// Each row is made from an event in its first attempt, by the statement. A task
// that carries only the event's key is told the same, and gets the body.
func TestClaimTable(t *testing.T) {
	t.Parallel()
	for _, keyOnly := range []bool{false, true} {
		t.Run(fmt.Sprint("key only ", keyOnly), func(t *testing.T) {
			t.Parallel()
			testClaimTable(t, keyOnly)
		})
	}
}

func testClaimTable(t *testing.T, keyOnly bool) {
	t.Helper()
	const again = "second" // the delivery of a task that is not the row's
	tests := []struct {
		name     string
		row      string // assignments
		delivery string // of the task, if not the row's
		revive   int
		mine     bool
		want     webhook.Claim // what is compared: see below
	}{
		{"received", `status = 'received', lease_until = NULL`, "", 0, true, webhook.Claim{Attempt: 2}},
		{"processing, lease live", ``, "", 0, false, webhook.Claim{Status: webhook.Processing, Attempt: 1, Wait: 20 * time.Second}},
		{"processing, lease over", `lease_until = clock_timestamp()`, "", 0, true, webhook.Claim{Attempt: 2, Lost: 1}},
		{"processing, lease over again", `lease_until = clock_timestamp() - interval '5 s', lost = 1`, "", 0, true, webhook.Claim{Attempt: 2, Lost: 2}},
		{"processing, lease over just now, and lost before", `lease_until = clock_timestamp(), lost = 1`, "", 0, false, webhook.Claim{Status: webhook.Processing, Attempt: 1, Lost: 1, Wait: 4 * time.Second}},
		{"processing, lease over, budget gone", `lease_until = clock_timestamp(), attempt = 3`, "", 0, false, webhook.Claim{Status: webhook.Processing, Attempt: 3, Spent: true}},
		{"processing, lease over, budget gone but for a revival", `lease_until = clock_timestamp(), attempt = 3, budget_from = 1`, "", 0, true, webhook.Claim{Attempt: 4, BudgetFrom: 1, Lost: 1}},
		{"failed, due", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp()`, "", 0, true, webhook.Claim{Attempt: 2}},
		{"failed, due in 1 s", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp() + interval '1 s'`, "", 0, true, webhook.Claim{Attempt: 2}},
		{"failed, due in 1 minute", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp() + interval '60 s'`, "", 0, false, webhook.Claim{Status: webhook.Failed, Attempt: 1, Wait: time.Minute}},
		{"failed, due in 1 minute, delivered again", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp() + interval '60 s'`, again, 0, false, webhook.Claim{Status: webhook.Failed, Attempt: 1, Wait: time.Minute}},
		{"completed", `status = 'completed', lease_until = NULL, completed_at = clock_timestamp()`, "", 0, false, webhook.Claim{Status: webhook.Completed, Attempt: 1}},
		{"completed, delivered again", `status = 'completed', lease_until = NULL, completed_at = clock_timestamp()`, again, 0, false, webhook.Claim{Status: webhook.Completed, Attempt: 1}},
		{"completed, run again", `status = 'completed', lease_until = NULL, completed_at = clock_timestamp()`, "", 1, false, webhook.Claim{Status: webhook.Completed, Attempt: 1}},
		{"dead, a leftover", `status = 'dead', lease_until = NULL, attempt = 3`, "", 0, false, webhook.Claim{Status: webhook.Dead, Attempt: 3}},
		{"dead, delivered again", `status = 'dead', lease_until = NULL, attempt = 3`, again, 0, true, webhook.Claim{Attempt: 4, BudgetFrom: 3}},
		{"dead, run again", `status = 'dead', lease_until = NULL, attempt = 3`, "", 3, true, webhook.Claim{Attempt: 4, BudgetFrom: 3}},
		{"dead, run again for an older death", `status = 'dead', lease_until = NULL, attempt = 3`, "", 2, false, webhook.Claim{Status: webhook.Dead, Attempt: 3}},
	}
	store := newStore(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := event(fmt.Sprintf("row-%d", i), `{"n":1}`)
			first := store.claim(t, ev, "other")
			if tt.row != "" {
				store.exec(t, `UPDATE received_events SET `+tt.row+` WHERE event_id = $1`, ev.ID)
			}
			task := ev
			if keyOnly {
				task = key(ev)
			}
			if tt.delivery != "" {
				task.Delivery = tt.delivery
			}
			c, err := store.Claim(t.Context(), task, "me", terms, tt.revive)
			if err != nil {
				t.Fatal(err)
			}
			if c.Mine != tt.mine {
				t.Fatalf("Claim = %+v, want Mine %v", c, tt.mine)
			}
			if c.Lost != tt.want.Lost || c.BudgetFrom != tt.want.BudgetFrom || c.Attempt != tt.want.Attempt || c.Spent != tt.want.Spent {
				t.Errorf("Claim = %+v, want attempt %d, lost %d, budget from %d, spent %v", c, tt.want.Attempt, tt.want.Lost, tt.want.BudgetFrom, tt.want.Spent)
			}
			if !tt.mine {
				if c.Status != tt.want.Status || c.Wait > tt.want.Wait || c.Wait < tt.want.Wait-10*time.Second {
					t.Errorf("Claim = %s for %s, want %s for about %s", c.Status, c.Wait, tt.want.Status, tt.want.Wait)
				}
				return
			}
			if string(c.Event.Body) != string(ev.Body) || c.Event.SHA256 != ev.SHA256 || c.Event.Type != ev.Type || c.Event.Headers["X-Kept"] != "1" || c.Event.KeyOnly || c.OtherBody {
				t.Errorf("Claim = %+v, want the event as stored", c)
			}
			if c.Event.Attempt <= first.Event.Attempt || c.Event.Attempt != c.Attempt {
				t.Errorf("attempt %d after %d: the fencing token must rise", c.Event.Attempt, first.Event.Attempt)
			}
			r := store.record(t, ev)
			if r.Status != webhook.Processing || r.Worker != "me" || r.LeaseUntil == nil || r.NextAttemptAt != nil {
				t.Errorf("row = %+v, want it to be in the hands of me", r)
			}
			if lost := len(r.Attempts) == 1 && r.Attempts[0].Kind == webhook.KindLost; lost != (tt.want.Lost > 0) {
				t.Errorf("attempts = %+v, want the lost one noted: %v", r.Attempts, tt.want.Lost > 0)
			}
		})
	}
}

func TestClaimKeepsTheDelivery(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ev := event("e-1", "{\"a\":\"\\u0000\", \"n\": 9007199254740993 }\n")
	ev.ContentType, ev.Headers = "application/json\xff", map[string]string{"X-Odd": "a\x00\xff"}
	c := store.claim(t, ev, "me")
	if string(c.Event.Body) != string(ev.Body) || c.Event.SHA256 != ev.SHA256 || c.Event.Attempt != 1 {
		t.Errorf("Claim = %+v, want the body as it came, attempt 1", c)
	}
	r := store.record(t, ev)
	if string(r.Payload) != string(ev.Body) || r.PayloadSHA256 != fmt.Sprintf("%x", ev.SHA256) {
		t.Errorf("payload = %q, %s, want it byte for byte", r.Payload, r.PayloadSHA256)
	}
	if r.ContentType != "application/json\uFFFD" || r.Headers["X-Odd"] != "a\uFFFD\uFFFD" || !r.ReceivedAt.Equal(ev.ReceivedAt) {
		t.Errorf("record = %+v, want text that Postgres can hold", r)
	}
}

func TestClaimOfAnotherBody(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	first := event("e-1", `{"amount":1}`)
	store.claim(t, first, "me")
	store.exec(t, `UPDATE received_events SET status = 'received', lease_until = NULL`)
	second := event("e-1", `{"amount":2}`)
	second.Type, second.Headers = "payment.failed", nil
	c := store.claim(t, second, "me")
	if !c.OtherBody || string(c.Event.Body) != string(first.Body) || c.Event.Type != first.Type || c.Event.Headers["X-Kept"] != "1" {
		t.Errorf("Claim = %+v, want the first delivery, and the news that it is another", c)
	}
	for range 2 {
		if err := store.KeepConflict(t.Context(), second); err != nil {
			t.Fatal(err)
		}
	}
	if r := store.record(t, first); len(r.Conflicts) != 1 || r.Conflicts[0] != fmt.Sprintf("%x", second.SHA256) {
		t.Errorf("conflicts = %v, want the second body once", r.Conflicts)
	}
}

// TestClaimRace lets workers race for an event that nobody has seen.
func TestClaimRace(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	for round := range 20 {
		ev := event(fmt.Sprintf("race-%d", round), `{}`)
		var mine atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for worker := range 4 {
			wg.Go(func() {
				<-start
				c, err := store.Claim(context.Background(), ev, fmt.Sprint(worker), terms, 0)
				if _, busy := errors.AsType[*webhook.BusyError](err); err != nil && !busy {
					t.Error(err)
				}
				if c.Mine {
					mine.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if mine.Load() != 1 {
			t.Fatalf("%d workers got the event, want 1", mine.Load())
		}
	}
}

// TestClaimDoesNotWaitForACommit holds the row as an uncommitted completion does.
func TestClaimDoesNotWaitForACommit(t *testing.T) {
	t.Parallel()
	store := newStore(t)
	ev := event("e-1", `{}`)
	store.claim(t, ev, "other")
	tx, err := store.db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer tx.Rollback(context.Background())
	if _, err := tx.Exec(t.Context(), `UPDATE received_events SET status = 'completed', completed_at = clock_timestamp(), lease_until = NULL`); err != nil {
		t.Fatal(err)
	}
	_, err = store.Claim(t.Context(), ev, "me", terms, 0)
	if busy, ok := errors.AsType[*webhook.BusyError](err); !ok || busy.After <= 0 {
		t.Errorf("Claim = %v, want a BusyError", err)
	}
}

// key is what a task has that sends for ev.
func key(ev webhook.Event) webhook.Event {
	return webhook.Event{
		Source: ev.Source, ID: ev.ID, Type: ev.Type, Delivery: ev.Delivery, ReceivedAt: ev.ReceivedAt, SHA256: ev.SHA256, KeyOnly: true,
	}
}

func TestClaimKeyWithoutRow(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.untouched(t, func() {
		c, err := f.Claim(t.Context(), key(event("e-1", `{}`)), "me", terms, 0)
		if !errors.Is(err, webhook.ErrNotFound) || errors.Is(err, webhook.ErrUnavailable) || c.Mine {
			t.Errorf("Claim = %+v, %v, want %v", c, err, webhook.ErrNotFound)
		}
	})
}

// TestClaimKeyOfAnotherBody has a task that was made for another body than the
// one that is stored. It has none itself, so there is nothing to keep.
func TestClaimKeyOfAnotherBody(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev := event("e-1", `{"n":1}`)
	f.claim(t, ev, "other")
	task := key(event("e-1", `{"n":2}`))
	c, err := f.Claim(t.Context(), task, "me", terms, 0)
	if err != nil || c.Mine || c.OtherBody {
		t.Errorf("Claim while another works = %+v, %v", c, err)
	}
	f.exec(t, `UPDATE received_events SET status = 'received', lease_until = NULL`)
	if c := f.claim(t, task, "me"); c.OtherBody || string(c.Event.Body) != string(ev.Body) || c.Event.SHA256 != ev.SHA256 {
		t.Errorf("Claim = %+v, want what is stored, and no other body", c)
	}
}

// TestClaimKeyRace lets workers race for a row.
func TestClaimKeyRace(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for round := range 20 {
		ev := event(fmt.Sprintf("race-%d", round), `{}`)
		f.claim(t, ev, "other")
		f.exec(t, `UPDATE received_events SET status = 'received', lease_until = NULL WHERE event_id = $1`, ev.ID)
		var mine atomic.Int32
		var wg sync.WaitGroup
		for worker := range 4 {
			wg.Go(func() {
				c, err := f.Claim(context.Background(), key(ev), fmt.Sprint(worker), terms, 0)
				if _, busy := errors.AsType[*webhook.BusyError](err); err != nil && !busy {
					t.Error(err)
				}
				if c.Mine {
					mine.Add(1)
				}
			})
		}
		wg.Wait()
		if mine.Load() != 1 {
			t.Fatalf("%d workers got the event, want 1", mine.Load())
		}
	}
}

// An event without headers has an empty object of them, never NULL.
func TestClaimWithoutHeaders(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for id, headers := range map[string]map[string]string{"nil": nil, "empty": {}} {
		ev := event(id, `{}`)
		ev.Headers = headers
		f.claim(t, ev, "w1")
		var stored string
		if err := f.db.QueryRow(t.Context(), `SELECT headers::text FROM received_events WHERE event_id = $1`, id).Scan(&stored); err != nil || stored != "{}" {
			t.Errorf("headers %s: stored %q, %v, want {}", id, stored, err)
		}
	}
}
