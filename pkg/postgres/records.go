package postgres

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

const recordColumns = `
	source, event_id, event_type, status, attempt, budget_from, lost, encode(payload_sha256, 'hex') AS payload_sha256,
	content_type, headers, delivery, received_at, started_at, lease_until, completed_at, next_attempt_at,
	coalesce(last_error, '') AS last_error, coalesce(error_kind, '') AS error_kind, coalesce(worker, '') AS worker`

const selectRecord = `SELECT ` + recordColumns + `, payload FROM received_events WHERE source = $1 AND event_id = $2`

const selectAttempts = `
SELECT attempt, kind, error, started_at, ended_at, worker
FROM event_attempts WHERE source = $1 AND event_id = $2 ORDER BY attempt`

const selectConflicts = `
SELECT encode(payload_sha256, 'hex') FROM payload_conflicts
WHERE source = $1 AND event_id = $2 ORDER BY received_at, payload_sha256`

// Record returns all that is stored of one event, or [webhook.ErrNotFound].
func (s *Store) Record(ctx context.Context, source, id string) (webhook.Record, error) {
	r, err := s.record(ctx, source, id)
	if err != nil && !errors.Is(err, webhook.ErrNotFound) {
		return r, unavailable(fmt.Errorf("read %s/%s: %w", source, id, err))
	}
	return r, err
}

func (s *Store) record(ctx context.Context, source, id string) (webhook.Record, error) {
	rows, _ := s.db.Query(ctx, selectRecord, source, id) // the errors come out of the collectors
	r, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByNameLax[webhook.Record])
	if errors.Is(err, pgx.ErrNoRows) {
		return r, webhook.ErrNotFound
	}
	if err != nil {
		return r, err
	}
	rows, _ = s.db.Query(ctx, selectAttempts, source, id)
	if r.Attempts, err = pgx.CollectRows(rows, pgx.RowToStructByName[webhook.AttemptRecord]); err != nil {
		return r, err
	}
	rows, _ = s.db.Query(ctx, selectConflicts, source, id)
	r.Conflicts, err = pgx.CollectRows(rows, pgx.RowTo[string])
	return r, err
}

const selectRecords = `
SELECT ` + recordColumns + `
FROM received_events
WHERE (@source = '' OR source = @source)
	AND (@status = '' OR status = @status)
	AND (@type = '' OR event_type = @type)
	AND (@since::timestamptz IS NULL OR received_at >= @since)
ORDER BY id DESC LIMIT @limit`

// Records returns the events that f chooses, newest first, without payloads.
func (s *Store) Records(ctx context.Context, f webhook.Filter) ([]webhook.Record, error) {
	args := pgx.NamedArgs{
		"source": f.Source, "status": string(f.Status), "type": f.Type, "since": nil, "limit": f.Limit,
	}
	if !f.Since.IsZero() {
		args["since"] = f.Since
	}
	rows, _ := s.db.Query(ctx, selectRecords, args) // the error comes out of the collector
	list, err := pgx.CollectRows(rows, pgx.RowToStructByNameLax[webhook.Record])
	if err != nil {
		return nil, unavailable(fmt.Errorf("list events: %w", err))
	}
	return list, nil
}
