package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A cause is a short hash of kind and text; what differs from event to event
// (words with a digit in them) is left out of the text.
const cause = `left(md5(e.error_kind || ':' || regexp_replace(e.last_error, '\S*\d\S*', '#', 'g')), 12)`

// died is when the event died: at the end of its last attempt.
const died = `coalesce((SELECT a.ended_at FROM event_attempts a
	WHERE a.source = e.source AND a.event_id = e.event_id AND a.attempt = e.attempt), e.received_at)`

const deadFilter = `e.status = 'dead'
	AND (@source = '' OR e.source = @source)
	AND (@id = '' OR e.event_id = @id)
	AND (@type = '' OR e.event_type = @type)
	AND (@cause = '' OR ` + cause + ` = @cause)
	AND (@since::timestamptz IS NULL OR ` + died + ` >= @since)
	AND (@until::timestamptz IS NULL OR ` + died + ` < @until)`

const groupDead = `
SELECT cause, source, kind, count(*) AS events, min(died) AS first, max(died) AS last,
	(array_agg(event_id ORDER BY id DESC))[1] AS example, (array_agg(last_error ORDER BY id DESC))[1] AS error
FROM (
	SELECT e.id, e.source, e.event_id, e.error_kind AS kind, e.last_error, ` + cause + ` AS cause, ` + died + ` AS died
	FROM received_events e WHERE ` + deadFilter + `
) AS dead
GROUP BY cause, source, kind ORDER BY count(*) DESC, cause, source`

// DeadGroups returns the dead events that f chooses, by their cause, the most
// frequent first.
func (s *Store) DeadGroups(ctx context.Context, f webhook.DeadFilter) ([]webhook.DeadGroup, error) {
	rows, _ := s.db.Query(ctx, groupDead, deadArgs(f)) // the error comes out of the collector
	groups, err := pgx.CollectRows(rows, pgx.RowToStructByName[webhook.DeadGroup])
	if err != nil {
		return nil, unavailable(fmt.Errorf("list dead events: %w", err))
	}
	return groups, nil
}

func deadArgs(f webhook.DeadFilter) pgx.NamedArgs {
	return pgx.NamedArgs{
		"source": f.Source, "id": f.ID, "type": f.Type, "cause": f.Cause, "since": moment(f.Since), "until": moment(f.Until),
	}
}

// moment is t, or NULL.
func moment(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Of two people who replay the same events at once, the second finds them no
// longer dead. The choice is MATERIALIZED, as a plan that ran it again for each
// row of a join would find other rows each time, and exceed the limit.
const replayDead = `
WITH chosen AS MATERIALIZED (
	SELECT e.id FROM received_events e WHERE ` + deadFilter + `
	ORDER BY e.id LIMIT @limit FOR UPDATE SKIP LOCKED
)
UPDATE received_events AS r SET
	status = 'received', budget_from = r.attempt, lost = 0,
	sweep_at = clock_timestamp() + interval '30 seconds', sweeps = 0
FROM chosen
WHERE r.id = chosen.id AND r.status = 'dead'
RETURNING r.source, r.event_id, r.event_type, r.delivery, r.payload_sha256, r.received_at`

const insertAudit = `INSERT INTO audit_log (actor, action, reason, details) VALUES (@actor, 'replay', @reason, @details)`

// Replay sets at most limit of the dead events that f chooses to run again,
// with their full budget, oldest first, and returns them. Who did it, and why,
// is kept in the same transaction.
func (s *Store) Replay(ctx context.Context, f webhook.DeadFilter, limit int, actor, reason string) ([]webhook.Event, error) {
	var events []webhook.Event
	err := pgx.BeginTxFunc(ctx, s.db, pgx.TxOptions{BeginQuery: patientBegin}, func(tx pgx.Tx) error {
		args := deadArgs(f)
		args["limit"] = limit
		rows, _ := tx.Query(ctx, replayDead, args) // the error comes out of the collector
		var err error
		if events, err = pgx.CollectRows(rows, keyOnly); err != nil || len(events) == 0 {
			return err
		}
		details, err := json.Marshal(struct {
			Filter webhook.DeadFilter
			Events int
		}{f, len(events)})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, insertAudit, pgx.NamedArgs{"actor": actor, "reason": reason, "details": string(details)})
		return err
	})
	if err != nil {
		return nil, unavailable(fmt.Errorf("replay dead events: %w", err))
	}
	return events, nil
}

// keyOnly reads what a task needs that sends for an event.
func keyOnly(row pgx.CollectableRow) (webhook.Event, error) {
	ev := webhook.Event{KeyOnly: true}
	var sum []byte
	err := row.Scan(&ev.Source, &ev.ID, &ev.Type, &ev.Delivery, &sum, &ev.ReceivedAt)
	copy(ev.SHA256[:], sum)
	return ev, err
}
