package postgres

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// unsentLimit is how many events may wait to be hastened. What comes on top is
// sent for after the 30 s that any event gets.
const unsentLimit = 4096

// Unsent notes that the event, which the inbox holds, could not be sent for:
// the sweeper need not wait for a worker to claim it. It does not block, and
// may be forgotten.
func (b *Inbox) Unsent(ev webhook.Event) {
	select {
	case b.unsent <- ev:
	default:
	}
}

// hasten makes what was not sent due at once, until ctx ends. An error costs
// only time.
func (b *Inbox) hasten(ctx context.Context) {
	for {
		var batch []webhook.Event
		select {
		case ev := <-b.unsent:
			batch = append(batch, ev)
		case <-ctx.Done():
			return
		}
		for more := true; more && len(batch) < inboxBatch; {
			select {
			case ev := <-b.unsent:
				batch = append(batch, ev)
			default:
				more = false
			}
		}
		bounded, cancel := context.WithTimeout(ctx, inboxTimeout)
		_ = b.store.Hasten(bounded, batch)
		cancel()
	}
}

// A row that somebody holds is being claimed, and needs no haste. One that was
// claimed meanwhile was sent for after all.
const hastenWaiting = `
WITH unsent AS MATERIALIZED (
	SELECT e.id FROM received_events e
	JOIN unnest(@source::text[], @event_id::text[]) AS v (source, event_id) USING (source, event_id)
	WHERE e.status = 'received' OR e.status = 'failed' AND e.sweeps > 0
	FOR UPDATE OF e SKIP LOCKED
)
UPDATE received_events AS e SET sweep_at = clock_timestamp(), sweeps = greatest(e.sweeps - 1, 0)
FROM unsent
WHERE e.id = unsent.id AND e.status IN ('received', 'failed')`

// Hasten makes events overdue that could not be sent for, if they still wait.
func (s *Store) Hasten(ctx context.Context, events []webhook.Event) error {
	var sources, ids []string
	for _, ev := range events {
		sources, ids = append(sources, ev.Source), append(ids, ev.ID)
	}
	if _, err := s.db.Exec(ctx, hastenWaiting, pgx.NamedArgs{"source": sources, "event_id": ids}); err != nil {
		return unavailable(fmt.Errorf("hasten %d events: %w", len(events), err))
	}
	return nil
}
