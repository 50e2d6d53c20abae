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
	if t.over {
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

// commit runs a last statement and ends the transaction, in one round trip; if
// the statement fails, nothing is committed, and by its division by zero it
// says that the attempt is fenced. If the answer is lost, nobody knows the
// outcome.
func (t *lazyTx) commit(ctx context.Context, last statement, values pgx.NamedArgs) error {
	if t.conn == nil { // the handler needed no transaction
		_, err := t.db.Exec(ctx, last.sql, last.args(values)...)
		return fencedOr(err)
	}
	pipeline, err := t.startLast(ctx, last, values)
	if err != nil {
		return outcome(err)
	}
	pipeline.SendQueryParams("commit", nil, nil, nil, nil)
	if err := pipeline.Sync(); err != nil {
		return outcome(errors.Join(err, pipeline.Close()))
	}
	var tag pgconn.CommandTag
	for range 2 { // the last statement, and the commit
		if tag, err = nextResult(pipeline); err != nil {
			break
		}
	}
	if closeErr := pipeline.Close(); err == nil {
		err = closeErr
	}
	t.committed = err == nil && tag.String() == "COMMIT"
	if err == nil && !t.committed {
		return pgx.ErrTxCommitRollback
	}
	return fencedOr(err)
}

// startLast begins a pipeline with the last statement. Its arguments go as
// text. It is prepared once in the life of a connection, unless the address of
// the database says otherwise, as a pooler may want.
func (t *lazyTx) startLast(ctx context.Context, last statement, values pgx.NamedArgs) (*pgconn.Pipeline, error) {
	texts := make([][]byte, len(last.names))
	for i, arg := range last.args(values) {
		texts[i] = fmt.Append(nil, arg)
	}
	if t.conn.Config().DefaultQueryExecMode != pgx.QueryExecModeCacheStatement {
		pipeline := t.conn.PgConn().StartPipeline(ctx)
		pipeline.SendQueryParams(last.sql, texts, nil, nil, nil)
		return pipeline, nil
	}
	prepared, err := t.conn.Prepare(ctx, last.sql, last.sql)
	if err != nil {
		return nil, err
	}
	pipeline := t.conn.PgConn().StartPipeline(ctx)
	pipeline.SendQueryPrepared(prepared.Name, texts, nil, nil)
	return pipeline, nil
}

func nextResult(pipeline *pgconn.Pipeline) (pgconn.CommandTag, error) {
	result, err := pipeline.GetResults()
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	reader, ok := result.(*pgconn.ResultReader)
	if !ok {
		return pgconn.CommandTag{}, fmt.Errorf("pipeline answered %T", result)
	}
	return reader.Close()
}

func fencedOr(err error) error {
	if code(err) == divisionByZero {
		return webhook.ErrFenced
	}
	return outcome(err)
}

// outcome of a commit: the server refused it, or perhaps never heard of it, or
// its answer was lost.
func outcome(err error) error {
	switch {
	case err == nil:
		return nil
	case code(err) != "":
		return unavailable(err)
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

func (t *lazyTx) Begin(ctx context.Context) (pgx.Tx, error) {
	tx, err := t.tx(ctx)
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
	conn, err := t.begun(ctx)
	if err != nil {
		return 0, err
	}
	return conn.CopyFrom(ctx, table, columns, src)
}

func (t *lazyTx) SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults {
	conn, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(b, err)
	}
	return conn.SendBatch(ctx, b)
}

func (t *lazyTx) LargeObjects() pgx.LargeObjects {
	tx, err := t.tx(t.ctx)
	if err != nil {
		return pgx.LargeObjects{}
	}
	return tx.LargeObjects()
}

func (t *lazyTx) Prepare(ctx context.Context, name, sql string) (*pgconn.StatementDescription, error) {
	conn, err := t.begun(ctx)
	if err != nil {
		return nil, err
	}
	return conn.Prepare(ctx, name, sql)
}

func (t *lazyTx) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	begun, err := t.state()
	switch {
	case err != nil:
		return pgconn.CommandTag{}, err
	case begun:
		return t.conn.Exec(ctx, sql, args...)
	case batchable(args):
		return t.beginWith(ctx, sql, args)
	}
	conn, err := t.begun(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return conn.Exec(ctx, sql, args...)
}

// batchable reports whether pgx would run a statement with these arguments in a
// batch as it does alone: without any it may be several statements, and an
// option is not known there.
func batchable(args []any) bool {
	if len(args) == 0 {
		return false
	}
	switch args[0].(type) {
	case pgx.QueryExecMode, pgx.QueryResultFormats, pgx.QueryResultFormatsByOID:
		return false
	}
	return true
}

func (t *lazyTx) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	conn, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(new(pgx.Batch), err).Query() // rows that tell the error too, as pgx promises
	}
	return conn.Query(ctx, sql, args...)
}

func (t *lazyTx) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	conn, err := t.begun(ctx)
	if err != nil {
		return pgx.FailedBatchResults(new(pgx.Batch), err).QueryRow()
	}
	return conn.QueryRow(ctx, sql, args...)
}

// Conn is nil if the database cannot be reached.
func (t *lazyTx) Conn() *pgx.Conn {
	conn, err := t.begun(t.ctx)
	if err != nil {
		return nil
	}
	return conn
}
