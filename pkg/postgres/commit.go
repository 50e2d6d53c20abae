package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// commit runs a last statement and ends the transaction, in one round trip; if
// the statement fails, nothing is committed, and by its division by zero it
// says that the attempt is fenced. If the answer is lost, nobody knows the
// outcome.
func (t *lazyTx) commit(ctx context.Context, last statement, values pgx.NamedArgs) error {
	t.mu.Lock()
	t.ending = true // a goroutine that the handler left behind must not write after it
	t.mu.Unlock()
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
