package worker_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

// A realRig is a worker on a real store, whose failed events are due at once.
type realRig struct {
	*worker.Worker
	t     *testing.T
	store *postgres.Store
	db    *pgxpool.Pool // to meddle behind the store's back
	runs  atomic.Int64
}

func newRealRig(t *testing.T, maxRetry int, handle func(ctx context.Context, tx pgx.Tx, c webhook.Claim) error) *realRig {
	t.Helper()
	url := stacktest.Postgres(t)
	ctx := context.Background() // the cleanup outlives t.Context()
	if _, err := migrations.Up(ctx, url); err != nil {
		t.Fatal(err)
	}
	store, err := postgres.Open(ctx, url, 8)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(store.Close)
	db, err := pgxpool.New(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	r := &realRig{t: t, store: store, db: db}
	r.Worker = &worker.Worker{
		Name:  "me",
		Lock:  &fakeLock{},
		Store: store,
		Attempt: func(ctx context.Context, c webhook.Claim) error {
			r.runs.Add(1)
			return store.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error { return handle(ctx, tx, c) })
		},
		Terms:   map[string]webhook.Terms{"shop": {Timeout: 15 * time.Second, MaxRetry: maxRetry}},
		Backoff: worker.Backoff{Min: time.Second, Max: time.Minute, Rand: func() float64 { return 0 }},
		Away:    worker.Away{Probe: 10 * time.Millisecond, Patience: time.Second},
		Observe: func(worker.Report) {},
		Log:     slog.New(slog.DiscardHandler),
	}
	return r
}

// untilDead brings the event back until it dies, and returns how often the
// handler ran.
func (r *realRig) untilDead(ev webhook.Event, revive int) int64 {
	r.t.Helper()
	before := r.runs.Load()
	for range 20 {
		err := r.Process(r.t.Context(), ev, revive)
		again, ok := errors.AsType[*webhook.RetryError](err)
		switch {
		case ok && again.Failed:
			continue
		case ok:
			r.t.Fatalf("Process = %s, %v, want it to fail", told(err), err)
		}
		dead, ok := errors.AsType[*webhook.DeadError](err)
		if !ok || dead.Leftover || dead.Attempt != r.record(ev).Attempt {
			r.t.Fatalf("Process = %s, want dead at attempt %d", told(err), r.record(ev).Attempt)
		}
		return r.runs.Load() - before
	}
	r.t.Fatal("the event does not die")
	return 0
}

func (r *realRig) record(ev webhook.Event) webhook.Record {
	r.t.Helper()
	record, err := r.store.Record(r.t.Context(), ev.Source, ev.ID)
	if err != nil {
		r.t.Fatal(err)
	}
	return record
}

func (r *realRig) want(ev webhook.Event, status webhook.Status) {
	r.t.Helper()
	if got := r.record(ev); got.Status != status {
		r.t.Errorf("event is %s, want %s: %+v", got.Status, status, got)
	}
}

// endLease makes the attempt that runs look lost.
func (r *realRig) endLease(ctx context.Context) {
	if _, err := r.db.Exec(ctx, `UPDATE received_events SET lease_until = clock_timestamp() - interval '1 second'`); err != nil {
		r.t.Error(err)
	}
}

func boom(context.Context, pgx.Tx, webhook.Claim) error { return errBoom }

// TestBudget runs an event's whole life, three times over: each revival has
// the full budget, and what comes without one is a leftover.
func TestBudget(t *testing.T) {
	t.Parallel()
	for maxRetry := range 3 {
		t.Run(fmt.Sprintf("max_retry %d", maxRetry), func(t *testing.T) {
			t.Parallel()
			want := int64(maxRetry + 1)
			r := newRealRig(t, maxRetry, boom)
			ev := event("e-1", `{}`)
			if n := r.untilDead(ev, 0); n != want {
				t.Errorf("ran %d times until dead, want %d", n, want)
			}
			first := r.record(ev).Attempt
			if got := told(r.Process(t.Context(), ev, 0)); got != fmt.Sprintf("leftover of attempt %d", first) {
				t.Errorf("Process of the same delivery = %s", got)
			}
			again := ev
			again.Delivery = "another"
			if n := r.untilDead(again, 0); n != want {
				t.Errorf("after a new delivery it ran %d times, want %d", n, want)
			}
			second := r.record(ev).Attempt
			if got := told(r.Process(t.Context(), again, first)); got != fmt.Sprintf("leftover of attempt %d", second) {
				t.Errorf("Process of an older death = %s", got)
			}
			if n := r.untilDead(again, second); n != want {
				t.Errorf("after a person's Run it ran %d times, want %d", n, want)
			}
			if got := r.record(ev); got.Attempt != int(3*want) || len(got.Attempts) != int(3*want) || got.LastError != "boom" {
				t.Errorf("record %+v, want %d attempts that all failed", got, 3*want)
			}
		})
	}
}

// TestGivenBackCostsNothing interrupts the event more often than its budget
// has retries.
func TestGivenBackCostsNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		fail func(stop context.CancelCauseFunc) error
		want string
	}{
		{"shutdown", func(stop context.CancelCauseFunc) error { stop(webhook.ErrShutdown); return errBoom }, "again in 0s"},
		{"database away", func(context.CancelCauseFunc) error { return errAway }, "again after the outage"},
		{"called off", func(stop context.CancelCauseFunc) error { stop(nil); return errBoom }, "again after the outage"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const maxRetry, interruptions = 1, 5
			var stop context.CancelCauseFunc // nil: no more interruptions
			r := newRealRig(t, maxRetry, func(context.Context, pgx.Tx, webhook.Claim) error {
				if stop == nil {
					return errBoom
				}
				return tt.fail(stop)
			})
			ev := event("e-1", `{}`)
			for range interruptions {
				var ctx context.Context
				ctx, stop = context.WithCancelCause(t.Context())
				if got := told(r.Process(ctx, ev, 0)); got != tt.want {
					t.Fatalf("Process = %s, want %s", got, tt.want)
				}
				r.want(ev, webhook.Received)
			}
			stop = nil
			if n := r.untilDead(ev, 0); n != maxRetry+1 {
				t.Errorf("ran %d times after the interruptions, want %d", n, maxRetry+1)
			}
			if got := r.record(ev); got.Attempt != interruptions+maxRetry+1 || got.BudgetFrom != interruptions {
				t.Errorf("attempt %d, budget from %d", got.Attempt, got.BudgetFrom)
			}
		})
	}
}

// TestCommitArrived has an attempt whose commit arrived and whose answer did
// not: the event is done, and does not run again.
func TestCommitArrived(t *testing.T) {
	t.Parallel()
	r := newRealRig(t, 2, func(context.Context, pgx.Tx, webhook.Claim) error { return nil })
	attempt := r.Attempt
	r.Attempt = func(ctx context.Context, c webhook.Claim) error { return errors.Join(attempt(ctx, c), errAway) }
	ev := event("e-1", `{}`)
	for range 2 {
		if got := told(r.Process(t.Context(), ev, 0)); got != "done" {
			t.Errorf("Process = %s", got)
		}
	}
	r.want(ev, webhook.Completed)
	if n := r.runs.Load(); n != 1 {
		t.Errorf("ran %d times, want once", n)
	}
}

// TestLost has an event whose worker died in the attempt before.
func TestLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		maxRetry int
		runs     int64
		kind     webhook.Kind
	}{
		{0, 0, webhook.KindLost}, // it was the last attempt allowed
		{1, 1, webhook.KindError},
		{2, 2, webhook.KindError},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("max_retry %d", tt.maxRetry), func(t *testing.T) {
			t.Parallel()
			r := newRealRig(t, tt.maxRetry, boom)
			ev := event("e-1", `{}`)
			if _, err := r.store.Claim(t.Context(), ev, "one that dies", r.Terms["shop"], 0); err != nil {
				t.Fatal(err)
			}
			if got := told(r.Process(t.Context(), ev, 0)); got != "again in 20s" && got[:len("again in 19.")] != "again in 19." {
				t.Errorf("Process while the lease is live = %s", got)
			}
			r.endLease(t.Context())
			if n := r.untilDead(ev, 0); n != tt.runs {
				t.Errorf("ran %d times, want %d", n, tt.runs)
			}
			if got := r.record(ev); got.ErrorKind != tt.kind || got.Status != webhook.Dead {
				t.Errorf("record %+v, want it dead by %s", got, tt.kind)
			}
		})
	}
}

// TestOvertaken has an attempt that outlives its lease, and the one that took
// over: only the effect of the latter is kept.
func TestOvertaken(t *testing.T) {
	t.Parallel()
	ev := event("e-1", `{}`)
	var r *realRig
	r = newRealRig(t, 2, func(ctx context.Context, tx pgx.Tx, c webhook.Claim) error {
		if c.Event.Attempt == 1 {
			r.endLease(ctx)
			if got := told(r.Process(t.Context(), ev, 0)); got != "done" {
				t.Errorf("Process of the second = %s", got)
			}
		}
		return pay(ctx, tx, c)
	})
	if got := told(r.Process(t.Context(), ev, 0)); got != "failed, again in 0s" && got != "again in 1s" {
		t.Errorf("Process of the overtaken = %s", got)
	}
	if got := told(r.Process(t.Context(), ev, 0)); got != "done" {
		t.Errorf("Process of the task that came back = %s", got)
	}
	r.want(ev, webhook.Completed)
	r.wantPayments(1)
}

// TestManyWorkers has no lock at all, and no budget to waste: the fence alone
// makes it one effect.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	r := newRealRig(t, 0, pay)
	r.Lock = &fakeLock{err: errAway}
	ev := event("e-1", `{}`)
	var done sync.WaitGroup
	for range 16 {
		done.Go(func() {
			for {
				err := r.Process(t.Context(), ev, 0)
				if again, ok := errors.AsType[*webhook.RetryError](err); ok && !again.Failed {
					continue // at once, though it says in a second
				}
				if err != nil {
					t.Errorf("Process = %s", told(err))
				}
				return
			}
		})
	}
	done.Wait()
	r.wantPayments(1)
	if n := r.runs.Load(); n != 1 {
		t.Errorf("ran %d times, want once", n)
	}
}

func pay(ctx context.Context, tx pgx.Tx, c webhook.Claim) error {
	_, err := tx.Exec(ctx, `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ($1, $2, 'x', 1, $3)`,
		c.Event.Source, c.Event.ID, c.Event.Attempt)
	return err
}

func (r *realRig) wantPayments(want int) {
	r.t.Helper()
	var n int
	if err := r.db.QueryRow(r.t.Context(), `SELECT count(*) FROM payments`).Scan(&n); err != nil {
		r.t.Fatal(err)
	}
	if n != want {
		r.t.Errorf("%d payments, want %d", n, want)
	}
}
