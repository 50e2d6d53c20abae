package postgres_test

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestBury(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		row      string // assignments to an event in its first attempt
		attempt  int
		maxRetry int
		want     bool
	}{
		{"lease over, budget gone", `lease_until = clock_timestamp()`, 1, 0, true},
		{"lease over, budget gone since a revival", `lease_until = clock_timestamp(), attempt = 4, budget_from = 3`, 4, 0, true},
		{"lease live", `lost = 0`, 1, 0, false},
		{"budget left", `lease_until = clock_timestamp()`, 1, 1, false},
		{"budget left by a revival", `lease_until = clock_timestamp(), attempt = 4, budget_from = 4`, 4, 0, false},
		{"a later attempt", `lease_until = clock_timestamp(), attempt = 2`, 1, 0, false},
		{"completed", `status = 'completed', completed_at = clock_timestamp(), lease_until = NULL`, 1, 0, false},
		{"given back", `status = 'received', lease_until = NULL`, 1, 0, false},
		{"dead already", `status = 'dead', lease_until = NULL`, 1, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			ev := event("e-1", `{"n":1}`)
			f.claim(t, ev, "gone")
			f.exec(t, `UPDATE received_events SET `+tt.row)
			bury := func() {
				if done, err := f.Bury(t.Context(), ev, tt.attempt, tt.maxRetry, "lost"); err != nil || done != tt.want {
					t.Errorf("Bury = %v, %v, want %v", done, err, tt.want)
				}
			}
			if !tt.want {
				f.untouched(t, bury)
				return
			}
			bury()
			r := f.record(t, ev)
			if r.Status != webhook.Dead || r.ErrorKind != webhook.KindLost || r.LastError != "lost" || r.Lost != 1 || string(r.Payload) != `{"n":1}` {
				t.Errorf("record = %+v, want it dead, its worker lost, the payload kept", r)
			}
			if len(r.Attempts) != 1 || r.Attempts[0].Attempt != tt.attempt || r.Attempts[0].Kind != webhook.KindLost || r.Attempts[0].Worker != "gone" {
				t.Errorf("attempts = %+v, want the lost one", r.Attempts)
			}
		})
	}
}

func TestBuryRace(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	for round := range 10 {
		ev := event(fmt.Sprintf("e-%d", round), `{}`)
		f.claim(t, ev, "gone")
		f.exec(t, `UPDATE received_events SET lease_until = clock_timestamp() WHERE event_id = $1`, ev.ID)
		var buried atomic.Int32
		var wg sync.WaitGroup
		start := make(chan struct{})
		for range 2 {
			wg.Go(func() {
				<-start
				done, err := f.Bury(t.Context(), ev, 1, 0, "lost")
				if err != nil {
					t.Error(err)
				}
				if done {
					buried.Add(1)
				}
			})
		}
		close(start)
		wg.Wait()
		if buried.Load() != 1 {
			t.Errorf("%d buried the event, want 1", buried.Load())
		}
	}
}

// TestEveryStateHasAnExit walks one event through all states that the database
// knows, and out of each but completed, by the store's methods alone; only time
// is made to pass by hand.
func TestEveryStateHasAnExit(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev := event("e-1", `{}`)
	left := map[webhook.Status]bool{}
	var at webhook.Status // "" before the first step
	step := func(do func(), want webhook.Status) {
		t.Helper()
		do()
		if r := f.record(t, ev); r.Status != want {
			t.Fatalf("the event went from %q to %s, want %s", at, r.Status, want)
		}
		left[at], at = true, want
	}
	var c webhook.Claim
	claim := func() { c = f.claim(t, ev, "me") }
	settle := func(v webhook.Verdict) func() {
		return func() {
			if _, err := f.Settle(t.Context(), c, v); err != nil {
				t.Fatal(err)
			}
		}
	}
	step(claim, webhook.Processing)
	step(settle(webhook.Verdict{Status: webhook.Received, Kind: webhook.KindShutdown}), webhook.Received)
	step(claim, webhook.Processing)
	step(settle(webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError}), webhook.Failed)
	step(claim, webhook.Processing)
	step(settle(webhook.Verdict{Status: webhook.Dead, Kind: webhook.KindPermanent}), webhook.Dead)
	ev.Delivery = "again"
	step(claim, webhook.Processing)
	for !c.LastTry() { // workers die until the budget is gone
		f.exec(t, `UPDATE received_events SET lease_until = clock_timestamp() - interval '1 hour'`)
		claim()
	}
	f.exec(t, `UPDATE received_events SET lease_until = clock_timestamp() - interval '1 hour'`)
	step(func() {
		if done, err := f.Bury(t.Context(), ev, c.Event.Attempt, terms.MaxRetry, "lost"); err != nil || !done {
			t.Fatalf("Bury = %v, %v, want true", done, err)
		}
	}, webhook.Dead)
	step(func() {
		var err error
		if c, err = f.Claim(t.Context(), ev, "me", terms, c.Event.Attempt); err != nil || !c.Mine {
			t.Fatalf("Claim = %+v, %v, want a person's Run to revive it", c, err)
		}
	}, webhook.Processing)
	step(func() {
		if err := f.Attempt(t.Context(), c, func(context.Context, pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}, webhook.Completed)

	delete(left, "")
	left[at] = true
	check := query[string](t, f, `SELECT pg_get_constraintdef(oid) FROM pg_constraint
		WHERE conrelid = 'received_events'::regclass AND contype = 'c' AND conname = 'received_events_status_check'`)
	var all []webhook.Status
	for _, m := range regexp.MustCompile(`'([a-z]+)'`).FindAllStringSubmatch(check, -1) {
		all = append(all, webhook.Status(m[1]))
	}
	slices.Sort(all)
	if walked := slices.Sorted(maps.Keys(left)); !reflect.DeepEqual(walked, all) || len(all) != 5 {
		t.Errorf("walked through %v, want all of %v", walked, all)
	}
}
