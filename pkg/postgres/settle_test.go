package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestSettle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		verdict webhook.Verdict
		wait    time.Duration // until the next attempt; 0 for none
		sweep   time.Duration // until the sweeper looks for a lost task; 0 for never
		budget  int           // budget_from afterwards
		text    string        // the reason as stored
	}{
		{"failed", webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: "boom", Delay: time.Hour}, time.Hour, time.Hour + 30*time.Second, 0, "boom"},
		{"failed, due at once", webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindTimeout, Reason: "late", Delay: time.Nanosecond}, time.Nanosecond, 30 * time.Second, 0, "late"},
		{"failed with odd bytes", webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindPanic, Reason: "a\x00b\xff", Delay: time.Hour}, time.Hour, time.Hour + 30*time.Second, 0, "a\uFFFDb\uFFFD"},
		{"dead", webhook.Verdict{Status: webhook.Dead, Kind: webhook.KindPermanent, Reason: "bad amount"}, 0, 0, 0, "bad amount"},
		{"given back", webhook.Verdict{Status: webhook.Received, Kind: webhook.KindShutdown, Reason: "stopping"}, 0, 30 * time.Second, 1, "stopping"},
	}
	f := newStore(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ev := event(fmt.Sprintf("e-%d", i), `{"n":1}`)
			c := f.claim(t, ev, "me")
			f.exec(t, `UPDATE received_events SET lost = 1 WHERE event_id = $1`, ev.ID)
			status, err := f.Settle(t.Context(), c, tt.verdict)
			if err != nil || status != tt.verdict.Status {
				t.Fatalf("Settle = %s, %v, want %s", status, err, tt.verdict.Status)
			}
			r := f.record(t, ev)
			if r.Status != status || r.LastError != tt.text || r.ErrorKind != tt.verdict.Kind || r.Lost != 0 || r.BudgetFrom != tt.budget || r.LeaseUntil != nil {
				t.Errorf("record = %+v, want %s because of %q, budget from %d", r, status, tt.text, tt.budget)
			}
			if string(r.Payload) != string(ev.Body) {
				t.Errorf("payload = %q, want it kept", r.Payload)
			}
			if a := r.Attempts; len(a) != 1 || a[0].Attempt != 1 || a[0].Kind != tt.verdict.Kind || a[0].Error != tt.text || a[0].Worker != "me" || a[0].StartedAt == nil || a[0].EndedAt.Before(*a[0].StartedAt) {
				t.Errorf("attempts = %+v, want this one", a)
			}
			sweep := query[*time.Duration](t, f, `SELECT sweep_at - clock_timestamp() FROM received_events WHERE event_id = $1`, ev.ID)
			if (sweep == nil) != (tt.sweep == 0) || sweep != nil && (*sweep > tt.sweep || *sweep < tt.sweep-10*time.Second) {
				t.Errorf("swept in %v, want it in about %s", sweep, tt.sweep)
			}
			if tt.wait == 0 {
				if r.NextAttemptAt != nil {
					t.Errorf("next attempt at %s, want none", r.NextAttemptAt)
				}
				return
			}
			wait := query[time.Duration](t, f, `SELECT next_attempt_at - clock_timestamp() FROM received_events WHERE event_id = $1`, ev.ID)
			if wait > tt.wait || wait < tt.wait-10*time.Second {
				t.Errorf("next attempt in %s, want it in about %s", wait, tt.wait)
			}
		})
	}
}

func TestSettleFenced(t *testing.T) {
	t.Parallel()
	for _, tt := range spoils {
		if tt.name == "completed" {
			continue // then it was this attempt: see TestSettleUnknownCommit
		}
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			c := f.claim(t, event("e-1", `{}`), "me")
			f.exec(t, `UPDATE received_events SET `+tt.row)
			f.untouched(t, func() {
				status, err := f.Settle(t.Context(), c, webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: "boom"})
				if !errors.Is(err, webhook.ErrFenced) || status != "" {
					t.Errorf("Settle = %q, %v, want %v", status, err, webhook.ErrFenced)
				}
			})
		})
	}
	t.Run("completed by another", func(t *testing.T) {
		t.Parallel()
		f := newStore(t)
		c := f.claim(t, event("e-1", `{}`), "me")
		f.exec(t, `UPDATE received_events SET lease_until = clock_timestamp()`)
		other := f.claim(t, event("e-1", `{}`), "other")
		if err := f.Attempt(t.Context(), other, func(context.Context, pgx.Tx) error { return nil }); err != nil {
			t.Fatal(err)
		}
		f.untouched(t, func() {
			status, err := f.Settle(t.Context(), c, webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: "boom"})
			if !errors.Is(err, webhook.ErrFenced) {
				t.Errorf("Settle = %q, %v, want %v", status, err, webhook.ErrFenced)
			}
		})
	})
}

// untouched checks that do writes nothing.
func (f *fixture) untouched(tb testing.TB, do func()) {
	tb.Helper()
	const all = `SELECT coalesce(string_agg(r, E'\n' ORDER BY r), '') FROM
		(SELECT e::text AS r FROM received_events e UNION ALL SELECT a::text FROM event_attempts a) x`
	before := query[string](tb, f, all)
	do()
	if after := query[string](tb, f, all); after != before {
		tb.Errorf("rows = %s, want them untouched: %s", after, before)
	}
}

// TestSettleUnknownCommit cuts the connection while the commit is under way.
func TestSettleUnknownCommit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		arrives bool
		want    webhook.Status
		effects int
	}{
		{"the answer is lost", true, webhook.Completed, 1},
		{"the commit is lost", false, webhook.Failed, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			far := openStore(t, cutAtCommit(t, f.url, tt.arrives), 1)
			c := f.claim(t, event("e-1", `{}`), "me")
			err := far.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error { return pay(ctx, tx, c.Event) })
			if !errors.Is(err, webhook.ErrUnavailable) {
				t.Fatalf("Attempt = %v, want %v", err, webhook.ErrUnavailable)
			}
			verdict := webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindUnavailable, Reason: err.Error(), Delay: time.Hour}
			if status, err := f.Settle(t.Context(), c, verdict); err != nil || status != tt.want {
				t.Errorf("Settle = %s, %v, want %s", status, err, tt.want)
			}
			f.expect(t, c.Event, tt.want, tt.effects)
			if n := len(f.record(t, c.Event).Attempts); n != 1-tt.effects {
				t.Errorf("%d attempts without success, want %d", n, 1-tt.effects)
			}
		})
	}
}

// TestSettleWaits lets the backend of a lost connection still hold the row,
// with the completion done and not yet committed.
func TestSettleWaits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  string
		want webhook.Status
	}{
		{"for a commit", `COMMIT`, webhook.Completed},
		{"for a rollback", `ROLLBACK`, webhook.Dead},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			c := f.claim(t, event("e-1", `{}`), "me")
			holder, err := f.db.Acquire(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Release()
			const complete = `BEGIN; UPDATE received_events SET status = 'completed', completed_at = clock_timestamp(), lease_until = NULL`
			if _, err := holder.Exec(t.Context(), complete); err != nil {
				t.Fatal(err)
			}
			var status webhook.Status
			var settleErr error
			settled := make(chan struct{})
			go func() {
				defer close(settled)
				status, settleErr = f.Settle(context.Background(), c, webhook.Verdict{Status: webhook.Dead, Kind: webhook.KindPermanent, Reason: "bad"})
			}()
			pid := holder.Conn().PgConn().PID()
			eventually(t, "Settle waits for the row", func() bool {
				return query[int](t, f, `SELECT count(*) FROM pg_stat_activity WHERE $1 = ANY (pg_blocking_pids(pid))`, pid) == 1
			})
			if _, err := holder.Exec(t.Context(), tt.end); err != nil {
				t.Error(err)
			}
			<-settled
			if settleErr != nil || status != tt.want {
				t.Errorf("Settle = %s, %v, want %s", status, settleErr, tt.want)
			}
			f.expect(t, c.Event, tt.want, 0)
		})
	}
}
