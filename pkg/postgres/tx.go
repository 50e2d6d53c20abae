package postgres

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// Errors of a handler that ends the transaction it was lent. Ending it early
// would part the effect from the completion.
var (
	errCommit   = errors.New("the transaction is not the handler's to commit: return nil and the worker commits it")
	errRollback = errors.New("the transaction is not the handler's to roll back: return an error and the worker rolls it back")
	errEnded    = errors.New("the handler ended the transaction by a statement of its own: use savepoints (tx.Begin)")
	errClosed   = errors.New("the transaction's connection was closed")
	errReturned = errors.New("the transaction is over: the handler has returned")
)

// A lazyTx is the transaction that a handler works in. It takes a connection
// and begins with its first statement, so a handler that waits on something
// else first pins no connection. Only this package ends it.
type lazyTx struct {
	ctx     context.Context // of the attempt, for the methods of pgx.Tx that are given none
	db      *pgxpool.Pool
	timeout time.Duration

	mu      sync.Mutex // guards what cut, on another goroutine, needs
	pooled  *pgxpool.Conn
	severed *pgx.Conn // the connection, after cut took it from the pool
	over    bool
	ending  bool // nothing more is sent for the handler

	first sync.Mutex // held while it begins: a second goroutine must not send anything before

	conn       *pgx.Conn // nil before the transaction begins
	nested     pgx.Tx    // pgx' own view of the transaction, if somebody needs it
	beginErr   error
	rolledBack bool
	committed  bool
}

// acquire takes a connection for a transaction that is about to begin.
func (t *lazyTx) acquire(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		return errReturned
	}
	t.pooled, t.beginErr = t.db.Acquire(ctx)
	if t.beginErr == nil {
		t.conn = t.pooled.Conn() // the plain one, since the pool's could not be cut
		delete(t.conn.PgConn().CustomData(), interrupted)
	}
	return t.beginErr
}

// begun returns the connection with the transaction, which it begins if it has
// to.
func (t *lazyTx) begun(ctx context.Context) (*pgx.Conn, error) {
	t.first.Lock()
	defer t.first.Unlock()
	if begun, err := t.state(); begun || err != nil {
		return t.conn, err
	}
	if err := t.acquire(ctx); err != nil {
		return nil, err
	}
	_, t.beginErr = t.conn.Exec(ctx, fmt.Sprintf("begin; set local statement_timeout = %d; set local lock_timeout = %d;"+
		" set local idle_in_transaction_session_timeout = %d", t.limits()...))
	return t.conn, t.beginErr
}

// state reports whether the transaction has begun, or why it cannot.
func (t *lazyTx) state() (begun bool, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over || t.ending {
		return false, errReturned
	}
	return t.conn != nil, t.beginErr
}

// limits are the time-outs of the transaction in milliseconds: of a statement,
// of a lock, and between two statements.
func (t *lazyTx) limits() []any {
	return []any{
		t.timeout.Milliseconds(), min(handlerLock, t.timeout).Milliseconds(), (t.timeout + 2*time.Second).Milliseconds(),
	}
}

const setLimits = `
SELECT set_config('statement_timeout', $1::bigint::text, true), set_config('lock_timeout', $2::bigint::text, true),
	set_config('idle_in_transaction_session_timeout', $3::bigint::text, true)`

// beginWith begins the transaction and runs its first statement in one round
// trip. If pgx, or the server, finds fault with the statement before that, there
// is no transaction, and there must not be one without this statement.
func (t *lazyTx) beginWith(ctx context.Context, sql string, args []any) (pgconn.CommandTag, error) {
	if err := t.acquire(ctx); err != nil {
		return pgconn.CommandTag{}, err
	}
	batch := &pgx.Batch{}
	batch.Queue("begin")
	batch.Queue(setLimits, t.limits()...)
	batch.Queue(sql, args...)
	results := t.conn.SendBatch(ctx, batch)
	for range 2 {
		if _, err := results.Exec(); err != nil {
			t.beginErr = err
		}
	}
	tag, err := results.Exec()
	if closeErr := results.Close(); err == nil {
		err = closeErr
	}
	if err != nil && t.conn.PgConn().TxStatus() == 'I' {
		t.beginErr = err
	}
	return tag, err
}

// tx is pgx' own transaction, for what only that can do. It begins nothing: the
// transaction has begun.
func (t *lazyTx) tx(ctx context.Context) (pgx.Tx, error) {
	conn, err := t.begun(ctx)
	if err == nil && t.nested == nil {
		t.nested, err = conn.BeginTx(ctx, pgx.TxOptions{BeginQuery: "select"})
	}
	return t.nested, err
}

// fit reports why the transaction, after the handler returned nil, must not be
// committed.
func (t *lazyTx) fit(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case t.rolledBack:
		return errRollback
	case t.beginErr != nil:
		return t.beginErr
	case t.conn == nil:
		return nil
	case t.conn.IsClosed():
		return errClosed
	case t.conn.PgConn().IsBusy():
		return errors.New("the handler returned nil and left rows or results open: close them")
	}
	switch t.conn.PgConn().TxStatus() {
	case 'I':
		return errEnded
	case 'E':
		return errors.New("the handler returned nil after a statement failed: return the error, or use a savepoint (tx.Begin)")
	}
	return nil
}

// blame marks err as [webhook.ErrUnavailable] if the connection, and not the
// handler, is at fault. What the error says is no proof: a handler has
// connections of its own that may be lost.
func (t *lazyTx) blame(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return err // the deadline or a shutdown; pgx closes a connection that it must interrupt
	case t.beginErr != nil:
		return unavailable(err)
	case t.conn != nil && t.conn.IsClosed() && t.conn.PgConn().CustomData()[interrupted] == nil:
		return fmt.Errorf("%w: %w", webhook.ErrUnavailable, err)
	}
	return err
}

// interrupted is the key under which a connection notes that a context ended
// during a statement. The driver closes such a connection; if the context was
// one that the handler made, the database is not to blame for it.
const interrupted = "hookonce: interrupted"

// An interruptWatch writes that note.
type interruptWatch struct {
	ctxwatch.Handler
	conn *pgconn.PgConn
}

func (w interruptWatch) HandleCancel(ctx context.Context) {
	w.conn.CustomData()[interrupted] = true
	w.Handler.HandleCancel(ctx)
}

// release gives the connection back. What was not committed is rolled back.
func (t *lazyTx) release() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.over = true
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.ctx), time.Second)
	defer cancel()
	switch {
	case t.severed != nil:
		t.severed.Close(ctx) // the server knows already
	case t.pooled != nil:
		switch { // if it fails, Release closes the connection
		case t.nested != nil:
			t.nested.Rollback(ctx) // which also ends what was begun on it
		case !t.committed && t.conn != nil && !t.conn.IsClosed():
			_, _ = t.conn.Exec(ctx, "rollback")
		}
		t.pooled.Release()
	}
}

// cut closes the connection under a handler that does not return, and gives
// its place in the pool to others.
func (t *lazyTx) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.pooled == nil || t.over {
		t.over = true
		return
	}
	t.over = true
	t.severed = t.pooled.Hijack()
	t.severed.PgConn().Conn().Close()
}
