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
	conn    *pgxpool.Conn
	severed *pgx.Conn // the connection, after cut took it from the pool
	over    bool

	tx         pgx.Tx
	beginErr   error
	rolledBack bool
}

// begun returns the transaction, which it begins if it has to.
func (t *lazyTx) begun(ctx context.Context) (pgx.Tx, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.over:
		return nil, errReturned
	case t.tx != nil || t.beginErr != nil:
		return t.tx, t.beginErr
	}
	t.conn, t.beginErr = t.db.Acquire(ctx)
	if t.beginErr == nil {
		delete(t.conn.Conn().PgConn().CustomData(), interrupted)
		// On the plain connection, since the pool's own transaction could not be cut.
		t.tx, t.beginErr = t.conn.Conn().BeginTx(ctx, pgx.TxOptions{BeginQuery: t.beginQuery()})
	}
	return t.tx, t.beginErr
}

func (t *lazyTx) beginQuery() string {
	return fmt.Sprintf("begin; set local statement_timeout = %d; set local lock_timeout = %d;"+
		" set local idle_in_transaction_session_timeout = %d", t.timeout.Milliseconds(),
		min(handlerLock, t.timeout).Milliseconds(), (t.timeout + 2*time.Second).Milliseconds())
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
	case t.tx == nil:
		return nil
	}
	switch t.tx.Conn().PgConn().TxStatus() {
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
	case t.tx != nil && t.tx.Conn().IsClosed() && t.tx.Conn().PgConn().CustomData()[interrupted] == nil:
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

// commit ends the transaction. If the answer is lost, nobody knows the outcome.
func (t *lazyTx) commit(ctx context.Context) error {
	err := t.tx.Commit(ctx)
	if err == nil || errors.Is(err, pgx.ErrTxCommitRollback) {
		return err
	}
	if code(err) != "" {
		return unavailable(err) // the server refused: rolled back
	}
	return fmt.Errorf("%w: outcome of the commit unknown: %w", webhook.ErrUnavailable, err)
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
	case t.conn != nil:
		if t.tx != nil {
			t.tx.Rollback(ctx) // after a commit it does nothing; if it fails, Release closes the connection
		}
		t.conn.Release()
	}
}

// cut closes the connection under a handler that does not return, and gives
// its place in the pool to others.
func (t *lazyTx) cut() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.conn == nil || t.over {
		t.over = true
		return
	}
	t.over = true
	t.severed = t.conn.Hijack()
	t.severed.PgConn().Conn().Close()
}

func (t *lazyTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Begin(ctx)
}

func (t *lazyTx) Commit(context.Context) error { return errCommit }

func (t *lazyTx) Rollback(context.Context) error {
	t.rolledBack = true
	return errRollback
}

func (t *lazyTx) CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, src pgx.CopyFromSource) (int64, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return 0, err
	}
	return tx.CopyFrom(ctx, table, columns, src)
}

func (t *lazyTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return tx.SendBatch(ctx, b)
}

func (t *lazyTx) LargeObjects() pgx.LargeObjects {
	tx, err := t.begun(t.ctx)
	if err != nil {
		return pgx.LargeObjects{}
	}
	return tx.LargeObjects()
}

func (t *lazyTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	return tx.Prepare(ctx, name, sql)
}

func (t *lazyTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return tx.Exec(ctx, sql, args...)
}

func (t *lazyTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(new(pgx.Batch), err).Query() // rows that tell the error too, as pgx promises
	}
	return tx.Query(ctx, sql, args...)
}

func (t *lazyTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	tx, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(new(pgx.Batch), err).QueryRow()
	}
	return tx.QueryRow(ctx, sql, args...)
}

// Conn is nil if the database cannot be reached.
func (t *lazyTx) Conn() *pgx.Conn {
	tx, err := t.begun(t.ctx)
	if err != nil {
		return nil
	}
	return tx.Conn()
}
