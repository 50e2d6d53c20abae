package postgres_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestAttemptDeadlock locks two rows in opposite order, surely so at the first
// try of each.
func TestAttemptDeadlock(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.exec(t, `CREATE TABLE accounts (id int PRIMARY KEY, n int NOT NULL)`)
	f.exec(t, `INSERT INTO accounts VALUES (1, 0), (2, 0)`)
	var firstLocked, all sync.WaitGroup
	firstLocked.Add(2)
	var calls atomic.Int32
	events := []webhook.Event{event("e-1", `{}`), event("e-2", `{}`)}
	for i, order := range [][2]int{{1, 2}, {2, 1}} {
		c := f.claim(t, events[i], "me")
		var once sync.Once
		all.Go(func() {
			err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				calls.Add(1)
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				if _, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = $1`, order[0]); err != nil {
					return err
				}
				once.Do(func() { firstLocked.Done(); firstLocked.Wait() })
				_, err := tx.Exec(ctx, `UPDATE accounts SET n = n + 1 WHERE id = $1`, order[1])
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, ev := range events {
		f.expect(t, ev, webhook.Completed, 1)
	}
	if n := query[int](t, f, `SELECT sum(n)::int FROM accounts`); n != 4 || calls.Load() < 3 {
		t.Errorf("the accounts hold %d after %d calls, want 4 after 3 or more", n, calls.Load())
	}
}

const serializationFailure = `DO $$ BEGIN RAISE SQLSTATE '40001'; END $$`

func TestAttemptSerializationFailure(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	tests := []struct {
		name       string
		fail       int // so many first tries
		calls      int
		wantStatus webhook.Status
		effects    int
	}{
		{"once", 1, 2, webhook.Completed, 1},
		{"always", 1000, 4, webhook.Processing, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := f.claim(t, event(tt.name, `{}`), "me")
			calls := 0
			err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				calls++
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				if calls > tt.fail {
					return nil
				}
				_, err := tx.Exec(ctx, serializationFailure)
				return err
			})
			pgErr, _ := errors.AsType[*pgconn.PgError](err)
			if failed := pgErr != nil && pgErr.Code == "40001"; failed != (tt.effects == 0) || calls != tt.calls {
				t.Errorf("Attempt = %v after %d calls, want %d", err, calls, tt.calls)
			}
			f.expect(t, c.Event, tt.wantStatus, tt.effects)
		})
	}
	t.Run("at the deadline", func(t *testing.T) {
		t.Parallel()
		c := f.claim(t, event("deadline", `{}`), "me")
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		err := f.Attempt(ctx, c, func(ctx context.Context, tx pgx.Tx) error {
			calls++
			_, err := tx.Exec(ctx, serializationFailure)
			cancel()
			return err
		})
		if err == nil || calls != 1 {
			t.Errorf("Attempt = %v after %d calls, want no second one", err, calls)
		}
	})
}
