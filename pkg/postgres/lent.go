package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// What follows is pgx.Tx, as a handler sees it.

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
	if tag, sent, err := t.firstExec(ctx, sql, args); sent || err != nil {
		return tag, err
	}
	conn, err := t.begun(ctx)
	if err != nil {
		return pgconn.CommandTag{}, err
	}
	return conn.Exec(ctx, sql, args...)
}

// firstExec sends the statement together with the begin, if it is the first and
// can be.
func (t *lazyTx) firstExec(ctx context.Context, sql string, args []any) (tag pgconn.CommandTag, sent bool, err error) {
	t.first.Lock()
	defer t.first.Unlock()
	begun, err := t.state()
	if begun || err != nil || !batchable(args) {
		return tag, false, err
	}
	tag, err = t.beginWith(ctx, sql, args)
	return tag, true, err
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
