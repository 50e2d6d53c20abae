package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// TestTxIsLazy uses the only connection in the handler, which has not used tx.
func TestTxIsLazy(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	one := f.open(t, 1)
	c := f.claim(t, event("e-1", `{}`), "me")
	err := one.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
		if err := one.Ping(ctx); err != nil {
			t.Errorf("Ping in a handler without statements = %v, want the connection free", err)
		}
		return pay(ctx, tx, c.Event)
	})
	if err != nil {
		t.Error(err)
	}
	f.expect(t, c.Event, webhook.Completed, 1)
}

// TestTxEndedByHandler tries to end the transaction early, and returns nil. By
// tx nothing happens. A statement cannot be hindered: what it committed stays,
// but the event is not completed for it and will run again.
func TestTxEndedByHandler(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	statement := func(sql string) func(context.Context, pgx.Tx) error {
		return func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, sql)
			return err
		}
	}
	commit := func(ctx context.Context, tx pgx.Tx) error { return tx.Commit(ctx) }
	rollback := func(ctx context.Context, tx pgx.Tx) error { return tx.Rollback(ctx) }
	open := func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Query(ctx, `SELECT generate_series(1, 100000)`) //nolint:sqlclosecheck // that is the case
		return err
	}
	send := func(ctx context.Context, tx pgx.Tx) error {
		b := &pgx.Batch{}
		b.Queue(`SELECT generate_series(1, 100000)`)
		tx.SendBatch(ctx, b)
		return nil
	}
	tests := []struct {
		name    string
		end     func(ctx context.Context, tx pgx.Tx) error
		refused string // what end returns
		err     string // what Attempt returns
		status  webhook.Status
		effects int
	}{
		{"Commit", commit, "not the handler's to commit", "", webhook.Completed, 1},
		{"Rollback", rollback, "not the handler's to roll back", "not the handler's to roll back", webhook.Processing, 0},
		{"COMMIT", statement(`COMMIT`), "", "by a statement of its own", webhook.Processing, 1},
		{"rows left open", open, "", "left rows or results open", webhook.Processing, 0},
		{"results left open", send, "", "left rows or results open", webhook.Processing, 0},
		{"ROLLBACK", statement(`ROLLBACK`), "", "by a statement of its own", webhook.Processing, 0},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := f.claim(t, event(fmt.Sprintf("e-%d", i), `{}`), "me")
			err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
				if err := pay(ctx, tx, c.Event); err != nil {
					return err
				}
				if err := tt.end(ctx, tx); !says(err, tt.refused) {
					t.Errorf("%s = %v, want %q", tt.name, err, tt.refused)
				}
				return nil
			})
			if !says(err, tt.err) || errors.Is(err, webhook.ErrUnavailable) {
				t.Errorf("Attempt = %v, want %q", err, tt.err)
			}
			f.expect(t, c.Event, tt.status, tt.effects)
		})
	}
}

// says reports whether err contains text, or is nil if text is "".
func says(err error, text string) bool {
	if err == nil || text == "" {
		return err == nil && text == ""
	}
	return strings.Contains(err.Error(), text)
}

// everyUse tries all ways to send a statement and returns their errors.
func everyUse(ctx context.Context, tx pgx.Tx) map[string]error {
	var n int
	_, execErr := tx.Exec(ctx, `INSERT INTO used VALUES (1)`)
	_, copyErr := tx.CopyFrom(ctx, pgx.Identifier{"used"}, []string{"n"}, pgx.CopyFromRows([][]any{{2}, {3}}))
	rows, _ := tx.Query(ctx, `INSERT INTO used VALUES (4) RETURNING n`) // as pgx allows, the error comes out of the collector
	_, queryErr := pgx.CollectRows(rows, pgx.RowTo[int])
	var b pgx.Batch
	b.Queue(`INSERT INTO used VALUES (6)`)
	b.Queue(`INSERT INTO used VALUES (7)`).Exec(func(pgconn.CommandTag) error { return nil })
	results := tx.SendBatch(ctx, &b)
	_, batchErr := results.Exec()
	batchErr = errors.Join(batchErr, results.Close())
	_, prepareErr := tx.Prepare(ctx, "", `SELECT 1`)
	errs := map[string]error{
		"Exec": execErr, "CopyFrom": copyErr, "Query": queryErr,
		"SendBatch": batchErr, "Prepare": prepareErr,
		"QueryRow": tx.QueryRow(ctx, `INSERT INTO used VALUES (5) RETURNING n`).Scan(&n),
		"Begin": pgx.BeginFunc(ctx, tx, func(tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `INSERT INTO used VALUES (8)`)
			return err
		}),
	}
	if tx.Conn() == nil {
		errs["Conn"] = errors.New("nil")
	} else {
		errs["Conn"] = tx.Conn().Ping(ctx)
	}
	return errs
}

func TestTxMethods(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.exec(t, `CREATE TABLE used (n int UNIQUE)`)
	c := f.claim(t, event("e-1", `{}`), "me")
	var kept, part pgx.Tx
	err := f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) (err error) {
		for use, err := range everyUse(ctx, tx) {
			if err != nil {
				t.Errorf("%s = %v", use, err)
			}
		}
		objects := tx.LargeObjects()
		if id, err := objects.Create(ctx, 0); err != nil || objects.Unlink(ctx, id) != nil {
			t.Errorf("LargeObjects = %v", err)
		}
		kept = tx
		part, err = tx.Begin(ctx)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if n := query[int](t, f, `SELECT count(*) FROM used`); n != 8 {
		t.Errorf("%d rows, want 8", n)
	}
	for use, err := range everyUse(t.Context(), kept) {
		if err == nil {
			t.Errorf("%s after the handler returned: want an error", use)
		}
	}
	if _, err := part.Exec(t.Context(), `INSERT INTO used VALUES (9)`); err == nil {
		t.Error("Exec in a savepoint after the handler returned: want an error")
	}
	if n := query[int](t, f, `SELECT count(*) FROM used`); n != 8 {
		t.Errorf("%d rows after a use that came too late, want 8", n)
	}
}

func TestTxCannotBegin(t *testing.T) {
	t.Parallel()
	store := openStore(t, nowhere(t), 1)
	c := webhook.Claim{Mine: true, Event: event("e-1", `{}`), Worker: "me", Terms: terms, Deadline: time.Now().Add(terms.Timeout)}
	err := store.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
		for use, err := range everyUse(ctx, tx) {
			if err == nil {
				t.Errorf("%s without a database: want an error", use)
			}
		}
		return nil
	})
	if !errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Attempt = %v, want %v", err, webhook.ErrUnavailable)
	}
}

// TestTxSettings reads the settings that hold in a handler's transaction, and
// those of the session, which a URL tried to change.
func TestTxSettings(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	hostile := openStore(t, f.url+"&statement_timeout=1&lock_timeout=0&default_transaction_isolation=serializable&synchronous_commit=off"+
		"&idle_in_transaction_session_timeout=1&client_connection_check_interval=0&options=-c%20synchronous_commit%3Doff", 1)
	c, err := hostile.Claim(t.Context(), event("e-1", `{}`), "me", terms, 0)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct{ name, inTx, session string }{
		{"statement_timeout", "15s", "5000"},
		{"lock_timeout", "5s", "200"},
		{"idle_in_transaction_session_timeout", "17s", "5000"},
		{"client_connection_check_interval", "1s", "1000"},
		{"transaction_isolation", "read committed", "read committed"},
		{"default_transaction_isolation", "read committed", "read committed"},
		{"synchronous_commit", "on", "on"},
		{"application_name", "hookonce", "hookonce"},
	}
	err = hostile.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
		for _, tt := range tests {
			var inTx, session string
			const both = `SELECT current_setting($1), reset_val FROM pg_settings WHERE name = $1`
			if err := tx.QueryRow(ctx, both, tt.name).Scan(&inTx, &session); err != nil {
				return err
			}
			if inTx != tt.inTx || session != tt.session {
				t.Errorf("%s = %s, and %s in the session, want %s and %s", tt.name, inTx, session, tt.inTx, tt.session)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestTxStatementTimeout(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	short := webhook.Terms{Timeout: 100 * time.Millisecond, MaxRetry: 2}
	c, err := f.Claim(t.Context(), event("e-1", `{}`), "me", short, 0)
	if err != nil {
		t.Fatal(err)
	}
	// The context has no deadline here, so it is the server that ends it.
	err = f.Attempt(t.Context(), c, func(ctx context.Context, tx pgx.Tx) error {
		_, err := tx.Exec(ctx, `SELECT pg_sleep(10)`)
		return err
	})
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); !ok || pgErr.Code != "57014" || errors.Is(err, webhook.ErrUnavailable) {
		t.Errorf("Attempt = %v, want 57014", err)
	}
}

// TestTxCut lets a handler ignore its context until its lease is over, and then
// looks on from inside of it.
func TestTxCut(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	one := f.open(t, 1)
	c := f.claim(t, event("e-1", `{}`), "me")
	c.Deadline = time.Now().Add(time.Second - webhook.DefaultAllowance) // the claim was sent long ago
	leaseEnd := c.LeaseEnd()
	ctx, cancel := context.WithDeadline(t.Context(), c.Deadline)
	defer cancel()
	err := one.Attempt(ctx, c, func(_ context.Context, tx pgx.Tx) error {
		ctx := context.Background()
		if err := pay(ctx, tx, c.Event); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, 10*time.Second) // half of the lease as it was claimed
		defer cancel()
		if err := one.Ping(ctx); err != nil { // waits for the only connection
			t.Errorf("Ping = %v, want a connection when the lease is over", err)
		}
		if early := time.Until(leaseEnd); early > 0 {
			t.Errorf("the connection was cut %s before the lease was over", early)
		}
		if _, err := tx.Exec(ctx, `SELECT 1`); err == nil {
			t.Error("Exec after the lease: want an error")
		}
		return nil
	})
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Attempt = %v, want %v", err, context.DeadlineExceeded)
	}
	f.expect(t, c.Event, webhook.Processing, 0)
}

// TestTxCutInStatement cuts while a statement runs, as the server's own limit
// does not end it. This one waits for a real lease.
func TestTxCutInStatement(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	one := f.open(t, 1)
	c, err := one.Claim(t.Context(), event("e-1", `{}`), "me", webhook.Terms{Timeout: 100 * time.Millisecond}, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithDeadline(t.Context(), c.Deadline)
	defer cancel()
	err = one.Attempt(ctx, c, func(_ context.Context, tx pgx.Tx) error {
		ctx := context.Background()
		if _, err := tx.Exec(ctx, `SET LOCAL statement_timeout = 0`); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, `SELECT pg_sleep(60)`)
		return err
	})
	if err == nil || time.Until(c.LeaseEnd()) > 0 {
		t.Errorf("Attempt = %v %s before the lease was over, want it cut then", err, time.Until(c.LeaseEnd()))
	}
	if err := one.Ping(t.Context()); err != nil {
		t.Errorf("Ping = %v", err)
	}
	f.expect(t, c.Event, webhook.Processing, 0)
}

// TestTxBeginsOnce lets two goroutines of a handler come with the first statement
// while the pool has no connection: one begins, and the other waits for that. It
// must neither take a connection of its own nor write before the transaction.
func TestTxBeginsOnce(t *testing.T) {
	t.Parallel()
	f := newStore(t)
	f.exec(t, `CREATE TABLE used (n int)`)
	small := openStore(t, f.url, 1)
	first, second := f.claim(t, event("e-1", `{}`), "me"), f.claim(t, event("e-2", `{}`), "me")
	held, release := make(chan struct{}), make(chan struct{})
	var holder sync.WaitGroup
	holder.Go(func() {
		err := small.Attempt(t.Context(), first, func(ctx context.Context, tx pgx.Tx) error {
			_, err := tx.Exec(ctx, `SELECT $1::int`, 1)
			close(held)
			<-release
			return err
		})
		if err != nil {
			t.Error(err)
		}
	})
	<-held
	boom := errors.New("boom")
	err := small.Attempt(t.Context(), second, func(ctx context.Context, tx pgx.Tx) error {
		var wg sync.WaitGroup
		for n := range 2 {
			wg.Go(func() {
				if _, err := tx.Exec(ctx, `INSERT INTO used VALUES ($1)`, n); err != nil {
					t.Error(err)
				}
			})
		}
		close(release)
		wg.Wait()
		if n := 0; tx.QueryRow(ctx, `SELECT count(*) FROM used`).Scan(&n) != nil || n != 2 {
			t.Errorf("the transaction sees %d rows, want 2", n)
		}
		return boom
	})
	holder.Wait()
	if !errors.Is(err, boom) {
		t.Errorf("Attempt = %v, want %v", err, boom)
	}
	if n := query[int](t, f, `SELECT count(*) FROM used`); n != 0 {
		t.Errorf("%d rows were written outside of a transaction that was rolled back", n)
	}
}
