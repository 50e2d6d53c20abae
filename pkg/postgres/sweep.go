package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// Whoever sweeps first takes the rows, by moving their time forward: 30 s, and
// twice as far each time after, to 10 min. No transaction stays open while the
// queue is asked. The choice is MATERIALIZED: see replayDead.
const takeOverdue = `
WITH due AS MATERIALIZED (
	SELECT id FROM received_events
	WHERE sweep_at <= clock_timestamp() AND source = ANY (@sources)
	ORDER BY sweep_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
UPDATE received_events AS e SET
	sweep_at = clock_timestamp() + least(interval '30 seconds' * power(2, least(e.sweeps, 10)), interval '10 minutes'),
	sweeps = e.sweeps + 1
FROM due
WHERE e.id = due.id AND e.status IN ('received', 'processing', 'failed')
RETURNING e.source, e.event_id, e.event_type, e.delivery, e.payload_sha256, e.received_at`

// Overdue takes events for which an attempt is overdue: not claimed for 30 s,
// not tried again 30 s after that was due, or not settled by the end of the
// lease. They come with all that a task needs that sends for them.
func (s *Store) Overdue(ctx context.Context, sources []string, limit int) ([]webhook.Event, error) {
	rows, _ := s.db.Query(ctx, takeOverdue, pgx.NamedArgs{"sources": sources, "limit": limit}) // the error comes out of the collector
	events, err := pgx.CollectRows(rows, keyOnly)
	if err != nil {
		return nil, unavailable(fmt.Errorf("take overdue events: %w", err))
	}
	return events, nil
}

const selectEpoch = `SELECT epoch FROM queue_epochs WHERE source = $1`

// Epoch is the mark that the source's queue had when it was last whole; "" if
// it never had one.
func (s *Store) Epoch(ctx context.Context, source string) (string, error) {
	var epoch string
	err := s.db.QueryRow(ctx, selectEpoch, source).Scan(&epoch)
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return "", unavailable(fmt.Errorf("read epoch of %s: %w", source, err))
	}
	return epoch, nil
}

// Of several workers that notice at once, the one recalls that changes the mark.
const setEpoch = `
INSERT INTO queue_epochs AS q (source, epoch) VALUES (@source, @next)
ON CONFLICT (source) DO UPDATE SET epoch = @next WHERE q.epoch = @known`

const recallWaiting = `
UPDATE received_events SET sweep_at = clock_timestamp(), sweeps = 0
WHERE source = @source AND status IN ('received', 'failed') AND sweep_at IS NOT NULL`

// Recall makes all events of the source overdue that wait for an attempt, and
// remembers the next mark, if the known one is still the last. It returns how
// many events those are, and whether the mark is set.
func (s *Store) Recall(ctx context.Context, source, known, next string) (events int, set bool, err error) {
	args := pgx.NamedArgs{"source": source, "known": known, "next": next}
	err = pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{BeginQuery: patientBegin}, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, setEpoch, args)
		if err != nil || tag.RowsAffected() == 0 {
			return err
		}
		set = true
		tag, err = tx.Exec(ctx, recallWaiting, args)
		events = int(tag.RowsAffected())
		return err
	})
	if err != nil {
		return 0, false, unavailable(fmt.Errorf("recall %s: %w", source, err))
	}
	return events, set, nil
}

const selectLeased = `
SELECT event_id FROM received_events
WHERE source = $1 AND event_id = ANY ($2) AND status = 'processing' AND lease_until > clock_timestamp()`

// Leased returns those of the events that an attempt is running on.
func (s *Store) Leased(ctx context.Context, source string, ids []string) (map[string]bool, error) {
	return s.among(ctx, selectLeased, source, ids)
}

const selectDead = `SELECT event_id FROM received_events WHERE source = $1 AND event_id = ANY ($2) AND status = 'dead'`

// Dead returns those of the events that are dead.
func (s *Store) Dead(ctx context.Context, source string, ids []string) (map[string]bool, error) {
	return s.among(ctx, selectDead, source, ids)
}

func (s *Store) among(ctx context.Context, sql, source string, ids []string) (map[string]bool, error) {
	rows, _ := s.db.Query(ctx, sql, source, ids) // the error comes out of the collector
	found, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return nil, unavailable(fmt.Errorf("look at events of %s: %w", source, err))
	}
	set := make(map[string]bool, len(found))
	for _, id := range found {
		set[id] = true
	}
	return set, nil
}

const countStrays = `
SELECT source, count(*) FROM received_events
WHERE sweep_at IS NOT NULL AND NOT source = ANY ($1) GROUP BY source`

// Strays counts the events that wait for an attempt, by source, of sources that
// are not among those named: no worker will come for them.
func (s *Store) Strays(ctx context.Context, sources []string) (map[string]int, error) {
	rows, err := s.db.Query(ctx, countStrays, sources)
	strays := map[string]int{}
	if err == nil {
		var source string
		var n int
		_, err = pgx.ForEachRow(rows, []any{&source, &n}, func() error {
			strays[source] = n
			return nil
		})
	}
	if err != nil {
		return nil, unavailable(fmt.Errorf("count strays: %w", err))
	}
	return strays, nil
}

const purgePayloads = `
WITH old AS MATERIALIZED (
	SELECT id FROM received_events
	WHERE status = 'completed' AND payload IS NOT NULL AND source = @source
		AND completed_at < clock_timestamp() - @age::interval
	ORDER BY completed_at LIMIT @limit FOR UPDATE SKIP LOCKED
)
UPDATE received_events AS e SET payload = NULL, headers = '{}' FROM old WHERE e.id = old.id`

// PurgePayloads forgets bodies and headers of at most limit events of the
// source that were completed longer ago than age, and returns how many. The
// keys stay, so a copy that comes later is still a duplicate.
func (s *Store) PurgePayloads(ctx context.Context, source string, age time.Duration, limit int) (int, error) {
	return s.purge(ctx, purgePayloads, source, age, limit)
}

const purgeDetails = `
WITH old AS (
	SELECT a.source, a.event_id, a.attempt
	FROM event_attempts a JOIN received_events e USING (source, event_id)
	WHERE a.source = @source AND e.status = 'completed' AND e.payload IS NULL
		AND e.completed_at < clock_timestamp() - @age::interval
	LIMIT @limit
), conflicts AS (
	DELETE FROM payload_conflicts c USING received_events e
	WHERE c.source = @source AND e.source = c.source AND e.event_id = c.event_id AND e.status = 'completed'
		AND e.completed_at < clock_timestamp() - @age::interval
)
DELETE FROM event_attempts a USING old
WHERE a.source = old.source AND a.event_id = old.event_id AND a.attempt = old.attempt`

// PurgeDetails forgets failed attempts and other bodies likewise.
func (s *Store) PurgeDetails(ctx context.Context, source string, age time.Duration, limit int) (int, error) {
	return s.purge(ctx, purgeDetails, source, age, limit)
}

func (s *Store) purge(ctx context.Context, sql, source string, age time.Duration, limit int) (int, error) {
	tag, err := s.db.Exec(ctx, sql, pgx.NamedArgs{"source": source, "age": age, "limit": limit})
	if err != nil {
		return 0, unavailable(fmt.Errorf("purge %s: %w", source, err))
	}
	return int(tag.RowsAffected()), nil
}
