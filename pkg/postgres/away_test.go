package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestAttemptConnectionLost kills the backend under a handler. However the
// handler takes it, the database was away, and the event is not to blame.
func TestAttemptConnectionLost(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		then func(ctx context.Context, tx pgx.Tx) error
	}{
		{"and the statement's error is returned", func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT 1`)
			return err
		}},
		{"and the handler returns an error of its own", func(ctx context.Context, tx pgx.Tx) error {
			tx.Exec(ctx, `SELECT 1`)
			return errors.New("no luck")
		}},
		{"and the handler swallows it", func(ctx context.Context, tx pgx.Tx) error {
			tx.Exec(ctx, `SELECT 1`)
			return nil
		}},
		{"in a savepoint", func(ctx context.Context, tx pgx.Tx) error {
			return pgx.BeginFunc(ctx, tx, func(pgx.Tx) error { return nil })
		}},
		{"and nobody notices before the completion", func(context.Context, pgx.Tx) error { return nil }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := newStore(t)
			one := f.open(t, 1)
			c := f.claim(t, event("e-1", `{}`), "me")
			err := one.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				f.terminate(t, backend(ctx, t, tx))
				return tt.then(ctx, tx)
			})
			if !errors.Is(err, webhook.ErrUnavailable) {
				t.Errorf("Attempt = %v, want %v", err, webhook.ErrUnavailable)
			}
			f.expect(t, c.Event, webhook.Processing, 0)
			if err := one.Ping(t.Context()); err != nil {
				t.Errorf("Ping = %v: the pool must serve on", err)
			}
		})
	}
}

func backend(ctx context.Context, tb testing.TB, tx pgx.Tx) (pid int) {
	tb.Helper()
	if err := tx.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		tb.Error(err)
	}
	return pid
}

// terminate returns when the backend is gone.
func (f *fixture) terminate(tb testing.TB, pid int) {
	tb.Helper()
	if !query[bool](tb, f, `SELECT pg_terminate_backend($1, 5000)`, pid) {
		tb.Errorf("backend %d is not gone", pid)
	}
}

// TestAttemptHandlersOwnTrouble lets a handler fail in ways that look like a
// lost database, and are not.
func TestAttemptHandlersOwnTrouble(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	dial := &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}
	tests := []struct {
		name   string
		handle func(ctx context.Context, tx pgx.Tx) error
	}{
		{"EOF of another connection", func(context.Context, pgx.Tx) error { return io.EOF }},
		{"another host is down", func(context.Context, pgx.Tx) error { return fmt.Errorf("call the bank: %w", dial) }},
		{"its own deadline, elsewhere", func(context.Context, pgx.Tx) error { return context.DeadlineExceeded }},
		// The driver closes the connection that it must interrupt. To blame the
		// database would be to try a slow statement for ever, at no cost.
		{"it gave up a statement", func(ctx context.Context, tx pgx.Tx) error {
			return fmt.Errorf("look at the ledger: %w", f.interrupt(ctx, t, tx))
		}},
		{"it gave up a statement, and does not mind", func(ctx context.Context, tx pgx.Tx) error {
			f.interrupt(ctx, t, tx)
			return nil
		}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := f.claim(t, event(fmt.Sprintf("e-%d", i), `{}`), "me")
			err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				return tt.handle(ctx, tx)
			})
			if err == nil || errors.Is(err, webhook.ErrUnavailable) {
				t.Errorf("Attempt = %v, want the handler's own error", err)
			}
			f.expect(t, c.Event, webhook.Processing, 0)
		})
	}
}

// interrupt runs a slow statement, and ends its context while the server is at
// work on it.
func (f *fixture) interrupt(ctx context.Context, tb testing.TB, tx pgx.Tx) error {
	tb.Helper()
	pid := backend(ctx, tb, tx)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		defer cancel()
		eventually(tb, "the server is at work", func() bool {
			return query[bool](tb, f, `SELECT EXISTS (SELECT FROM pg_stat_activity WHERE pid = $1 AND wait_event = 'PgSleep')`, pid)
		})
	}()
	_, err := tx.Exec(ctx, `SELECT pg_sleep(10)`)
	return err
}

// TestAttemptDatabaseFull refuses the completion as a full disk does.
func TestAttemptDatabaseFull(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	c := f.claim(t, event("e-1", `{}`), "me")
	f.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE SQLSTATE '53100'; END $$`)
	f.exec(t, `CREATE TRIGGER full_disk BEFORE UPDATE ON received_events EXECUTE FUNCTION refuse()`)
	err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error { return pay(ctx, tx, c.Event) })
	if !errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Attempt = %v, want %v", err, webhook.ErrUnavailable)
	}
	f.expect(t, c.Event, webhook.Processing, 0)
}

// nowhere is the URL of a database that is away.
func nowhere(tb testing.TB) string {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	defer ln.Close()
	return (&url.URL{Scheme: "postgres", Host: ln.Addr().String(), Path: "/none", RawQuery: "sslmode=disable", User: url.UserPassword("u", "s3cret")}).String()
}

func TestAway(t *testing.T) {
	t.Parallel()
	store := openStore(t, nowhere(t), 2)
	ev := event("e-1", `{}`)
	c := webhook.Claim{Mine: true, Event: ev, Worker: "me", Terms: terms, Deadline: time.Now().Add(terms.Timeout)}
	ctx := t.Context()
	_, claimErr := store.Claim(ctx, ev, "me", terms, 0)
	_, settleErr := store.Settle(ctx, c, webhook.Verdict{Status: webhook.Failed})
	_, buryErr := store.Bury(ctx, ev, 1, 0, "")
	_, recordErr := store.Record(ctx, ev.Source, ev.ID)
	_, recordsErr := store.Records(ctx, webhook.Filter{Limit: 1})
	for call, err := range map[string]error{
		"Ping": store.Ping(ctx), "Claim": claimErr, "Settle": settleErr, "Bury": buryErr,
		"Record": recordErr, "Records": recordsErr, "KeepConflict": store.KeepConflict(ctx, ev),
		"Attempt without a statement":  store.Attempt(ctx, c, func(context.Context, pgx.Tx) error { return nil }),
		"Attempt with a statement":     store.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error { return pay(ctx, tx, ev) }),
		"Attempt with an error hidden": store.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error { pay(ctx, tx, ev); return nil }),
	} {
		if !errors.Is(err, webhook.ErrUnavailable) {
			t.Errorf("%s = %v, want %v", call, err, webhook.ErrUnavailable)
		}
	}
	ownErr := errors.New("own")
	if err := store.Attempt(ctx, c, func(context.Context, pgx.Tx) error { return ownErr }); !errors.Is(err, ownErr) || errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Attempt of a handler without a statement = %v, want its own error", err)
	}
}
