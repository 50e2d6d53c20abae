package postgres_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// open opens another store on the fixture's schema.
func (f *fixture) open(tb testing.TB, conns int) *postgres.Store {
	tb.Helper()
	return openStore(tb, f.url, conns)
}

func openStore(tb testing.TB, url string, conns int) *postgres.Store {
	tb.Helper()
	store, err := postgres.Open(context.Background(), url, conns)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(store.Close)
	return store
}

// query reads one value behind the store's back.
func query[T any](tb testing.TB, f *fixture, sql string, args ...any) T {
	tb.Helper()
	rows, _ := f.db.Query(tb.Context(), sql, args...) // the error comes out of the collector
	v, err := pgx.CollectExactlyOneRow(rows, pgx.RowTo[T])
	if err != nil {
		tb.Fatalf("%s: %v", sql, err)
	}
	return v
}

// expect checks how the event stands and how often its effect happened.
func (f *fixture) expect(tb testing.TB, ev webhook.Event, status webhook.Status, effects int) {
	tb.Helper()
	if r := f.record(tb, ev); r.Status != status {
		tb.Errorf("%s is %s, want %s", ev.ID, r.Status, status)
	}
	if n := query[int](tb, f, `SELECT count(*) FROM payments WHERE event_id = $1`, ev.ID); n != effects {
		tb.Errorf("%s has %d effects, want %d", ev.ID, n, effects)
	}
}

const insertPayment = `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ($1, $2, $3, 1, $4)`

// pay is the effect of the tests' handlers.
func pay(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	_, err := tx.Exec(ctx, insertPayment, ev.Source, ev.ID, ev.Type, ev.Attempt)
	return err
}

func TestAttempt(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev, other := event("e-1", `{}`), event("e-2", `{}`)
	c := f.claim(t, ev, "me")
	f.claim(t, other, "me")
	f.exec(t, `UPDATE received_events SET lost = 2, last_error = 'old', error_kind = 'lost'`)
	err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
		if err := pay(ctx, tx, c.Event); err != nil {
			return err
		}
		f.expect(t, ev, webhook.Processing, 0) // as others see it
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	f.expect(t, ev, webhook.Completed, 1)
	f.expect(t, other, webhook.Processing, 0)
	r := f.record(t, ev)
	if r.CompletedAt == nil || r.LeaseUntil != nil || r.Lost != 0 || r.LastError != "" || r.ErrorKind != "" || r.Attempt != 1 {
		t.Errorf("record = %+v, want nothing left of the attempts before", r)
	}
	if r.CompletedAt.Before(*r.StartedAt) {
		t.Errorf("completed at %s, before the start at %s", r.CompletedAt, r.StartedAt)
	}
}

// TestAttemptLeavesNothing ends handlers in the middle, on a pool of one
// connection, which must be as good as new afterwards.
func TestAttemptLeavesNothing(t *testing.T) {
	t.Parallel()
	errBoom := errors.New("boom")
	tests := []struct {
		name string
		end  func(ctx context.Context, tx pgx.Tx) error
	}{
		{"error", func(context.Context, pgx.Tx) error { return errBoom }},
		{"panic", func(context.Context, pgx.Tx) error { panic(errBoom) }},
		{"error in a savepoint", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Begin(ctx)
			return errors.Join(errBoom, err)
		}},
		{"error with rows unread", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Query(ctx, `SELECT generate_series(1, 10)`) //nolint:sqlclosecheck // that is the case
			return errors.Join(errBoom, err)
		}},
		{"error after a failed statement", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1/0`)
			return errors.Join(errBoom, err)
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			one := f.open(t, 1)
			ev := event("e-1", `{}`)
			c := f.claim(t, ev, "me")
			var pid int
			err := attempt(t.Context(), one, c, func(ctx context.Context, tx pgx.Tx) error {
				if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
					return err
				}
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				return tt.end(ctx, tx)
			})
			if !errors.Is(err, errBoom) || errors.Is(err, webhook.ErrUnavailable) {
				t.Errorf("Attempt = %v, want %v", err, errBoom)
			}
			const busy = `SELECT count(*) FROM pg_stat_activity WHERE pid = $1 AND (state <> 'idle' OR xact_start IS NOT NULL)`
			eventually(t, "the transaction is over", func() bool { return query[int](t, f, busy, pid) == 0 })
			f.expect(t, ev, webhook.Processing, 0)
			if err := one.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error { return pay(ctx, tx, ev) }); err != nil {
				t.Errorf("the next Attempt = %v", err)
			}
			f.expect(t, ev, webhook.Completed, 1)
		})
	}
}

// attempt makes an error of a panic, as the worker does.
func attempt(ctx context.Context, s *postgres.Store, c webhook.Claim, h func(context.Context, pgx.Tx) error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = p.(error)
		}
	}()
	return s.Attempt(ctx, c, h)
}

// eventually is for what another process does in its own time.
func eventually(tb testing.TB, what string, done func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within 10 s: %s", what)
		}
	}
}

// spoils each break one part of the guard of an attempt that claimed as "me".
var spoils = []struct{ name, row string }{
	{"a later attempt", `attempt = attempt + 1`},
	{"another worker's", `worker = 'other'`},
	{"completed", `status = 'completed', completed_at = clock_timestamp(), lease_until = NULL`},
	{"given back", `status = 'received', lease_until = NULL`},
	{"failed", `status = 'failed', lease_until = NULL, next_attempt_at = clock_timestamp()`},
	{"dead", `status = 'dead', lease_until = NULL`},
	{"another event", `event_id = 'moved'`},
	{"another source's", `source = 'moved'`},
}

func TestAttemptFenced(t *testing.T) {
	t.Parallel()
	for _, tt := range spoils {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			ev := event("e-1", `{}`)
			c := f.claim(t, ev, "me")
			err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				f.exec(t, `UPDATE received_events SET `+tt.row)
				return pay(ctx, tx, c.Event)
			})
			if !errors.Is(err, webhook.ErrFenced) {
				t.Errorf("Attempt = %v, want %v", err, webhook.ErrFenced)
			}
			if n := query[int](t, f, `SELECT count(*) FROM payments`); n != 0 {
				t.Errorf("%d effects of a fenced attempt", n)
			}
		})
	}
}

// TestAttemptOvertaken lets an attempt outlive its lease and another complete
// the event meanwhile.
func TestAttemptOvertaken(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	ev := event("e-1", `{}`)
	slow := f.claim(t, ev, "slow")
	err := f.Attempt(t.Context(), slow, func(ctx context.Context, tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, `SELECT 1`); err != nil {
			return err
		}
		f.exec(t, `UPDATE received_events SET lease_until = clock_timestamp()`)
		quick := f.claim(t, ev, "quick")
		if err := f.Attempt(ctx, quick, func(ctx context.Context, tx pgx.Tx) error { return pay(ctx, tx, quick.Event) }); err != nil {
			t.Errorf("the overtaker's Attempt = %v", err)
		}
		f.expect(t, ev, webhook.Completed, 1)
		_, err := tx.Exec(ctx, `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ('shop', 'second', 't', 1, 1)`)
		return err
	})
	if !errors.Is(err, webhook.ErrFenced) {
		t.Errorf("Attempt = %v, want %v", err, webhook.ErrFenced)
	}
	if by := query[int](t, f, `SELECT sum(attempt)::int FROM payments`); by != 2 {
		t.Errorf("payments are of attempt %d, want attempt 2's alone", by)
	}
}

// TestAttemptFailedStatement shows what a handler may do about a statement that
// failed: return the error or roll back to a savepoint, but not ignore it.
func TestAttemptFailedStatement(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.exec(t, insertPayment, "shop", "taken", "t", 1)
	pay2 := func(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
		if err := pay(ctx, tx, ev); err != nil {
			return err
		}
		return pay(ctx, tx, event("taken", ``))
	}
	t.Run("returned", func(t *testing.T) {
		c := f.claim(t, event("returned", `{}`), "me")
		err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error { return pay2(ctx, tx, c.Event) })
		if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "23505" || errors.Is(err, webhook.ErrUnavailable) {
			t.Errorf("Attempt = %v, want the handler's 23505", err)
		}
		f.expect(t, c.Event, webhook.Processing, 0)
	})
	t.Run("swallowed", func(t *testing.T) {
		c := f.claim(t, event("swallowed", `{}`), "me")
		err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
			if err := pay2(ctx, tx, c.Event); err == nil {
				t.Error("the second payment was booked")
			}
			return nil
		})
		if err == nil || !strings.Contains(err.Error(), "after a statement failed") || errors.Is(err, webhook.ErrUnavailable) {
			t.Errorf("Attempt = %v, want it to tell of the statement that failed", err)
		}
		f.expect(t, c.Event, webhook.Processing, 0)
	})
	t.Run("undone", func(t *testing.T) {
		c := f.claim(t, event("undone", `{}`), "me")
		err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
			if err := pay(ctx, tx, c.Event); err != nil {
				return err
			}
			part, err := tx.Begin(ctx)
			if err != nil {
				return err
			}
			if err := pay(ctx, part, event("taken", ``)); err == nil {
				t.Error("the second payment was booked")
			}
			return part.Rollback(ctx)
		})
		if err != nil {
			t.Error(err)
		}
		f.expect(t, c.Event, webhook.Completed, 1)
	})
}

// TestAttemptContextEnds ends the attempt's context in the handler: whatever it
// returns, nothing is kept, and the database is not to blame.
func TestAttemptContextEnds(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		end  func(ctx context.Context, tx pgx.Tx, cancel func()) error
	}{
		{"and it returns nil", func(_ context.Context, _ pgx.Tx, cancel func()) error { cancel(); return nil }},
		{"and it returns that", func(ctx context.Context, _ pgx.Tx, cancel func()) error { cancel(); return ctx.Err() }},
		{"in a statement", func(ctx context.Context, tx pgx.Tx, cancel func()) error {
			time.AfterFunc(50*time.Millisecond, cancel)
			_, err := tx.Exec(ctx, `SELECT pg_sleep(10)`)
			return err
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			one := f.open(t, 1)
			c := f.claim(t, event("e-1", `{}`), "me")
			ctx, cancel := context.WithCancel(t.Context())
			err := one.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error {
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				return tt.end(ctx, tx, cancel)
			})
			if !errors.Is(err, context.Canceled) || errors.Is(err, webhook.ErrUnavailable) {
				t.Errorf("Attempt = %v, want %v", err, context.Canceled)
			}
			f.expect(t, c.Event, webhook.Processing, 0)
			if err := one.Ping(t.Context()); err != nil {
				t.Errorf("Ping = %v: the pool must serve on", err)
			}
		})
	}
}
