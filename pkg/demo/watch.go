package demo

import (
	"context"
	"errors"
	"time"

	"github.com/jackc/pgx/v5"
)

// The table has no UNIQUE key on purpose: nothing but the fence keeps an
// effect single here.
const createEffects = `
CREATE TABLE IF NOT EXISTS demo_effects (source text NOT NULL, event_id text NOT NULL, attempt integer NOT NULL)`

const insertEffect = `INSERT INTO demo_effects (source, event_id, attempt) VALUES ($1, $2, $3)`

// endLease is what time does while a worker is suspended.
const endLease = `
UPDATE received_events SET lease_until = clock_timestamp() - interval '1 second'
WHERE source = $1 AND event_id = $2 AND status = 'processing'`

const countEventEffects = `SELECT count(*) FROM demo_effects WHERE source = $1 AND event_id = $2`

const selectState = `SELECT status, attempt FROM received_events WHERE source = $1 AND event_id = $2`

const countStates = `
SELECT status, count(*) FROM received_events WHERE event_id LIKE $1 GROUP BY status`

const countEffects = `
SELECT e.event_id, e.attempt AS attempts, count(d.*) AS effects
FROM received_events e LEFT JOIN demo_effects d USING (source, event_id)
WHERE e.event_id LIKE $1 GROUP BY e.id, e.event_id, e.attempt ORDER BY e.id`

// poll is how often the story looks; it waits for what happens, never for time.
const poll = 25 * time.Millisecond

// until looks until done says yes, and reports what did not come.
func (s *Story) until(ctx context.Context, what string, done func() bool) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			s.expect(false, "%s: %v", what, context.Cause(ctx))
			return
		case <-deadline.C:
			s.expect(false, "%s: not within %s", what, patience)
			return
		}
	}
}

func (s *Story) await(ctx context.Context, what string, c <-chan struct{}) {
	s.until(ctx, what, func() bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	})
}

func (s *Story) awaitStatus(ctx context.Context, source, id, status string) {
	s.until(ctx, id+" is "+status, func() bool { return s.status(ctx, source, id) == status })
	s.say("  the event is %s", s.status(ctx, source, id))
}

// awaitProcessed waits for asynq, which learns of the end after Postgres.
func (s *Story) awaitProcessed(ctx context.Context, source, id, typ string) {
	s.until(ctx, id+" is done for the queue", func() bool { return s.post(ctx, source, id, typ).Message != "Duplicate event: "+inProgress+"." })
}

// awaitAccepted delivers until the queue has forgotten the event.
func (s *Story) awaitAccepted(ctx context.Context, source, id, typ string) {
	s.awaitAnswer(ctx, "a copy, later", source, id, typ, "accepted")
}

// awaitGone waits until the worker has dealt with the copy, which Postgres caught.
func (s *Story) awaitGone(ctx context.Context, source, id, typ string) {
	s.awaitAnswer(ctx, "and one more, once the worker has dealt with it", source, id, typ, "accepted")
}

func (s *Story) awaitAnswer(ctx context.Context, what, source, id, typ, status string) {
	var a answer
	s.until(ctx, what, func() bool {
		a = s.post(ctx, source, id, typ)
		return a.Status == status
	})
	s.check(what, a, 200, status, "")
}

// settled waits until the workers have ended their transactions, in whatever way.
func (s *Story) settled(ctx context.Context) {
	s.until(ctx, "no transaction is open", func() bool {
		var open int
		err := s.db.QueryRow(ctx, countOpen).Scan(&open)
		return err == nil && open == 0
	})
}

const countOpen = `
SELECT count(*) FROM pg_stat_activity
WHERE datname = current_database() AND application_name = 'hookonce' AND xact_start IS NOT NULL`

func (s *Story) status(ctx context.Context, source, id string) string {
	status, _ := s.state(ctx, source, id)
	return status
}

func (s *Story) attempt(ctx context.Context, source, id string) int {
	_, attempt := s.state(ctx, source, id)
	return attempt
}

func (s *Story) state(ctx context.Context, source, id string) (status string, attempt int) {
	err := s.db.QueryRow(ctx, selectState, source, id).Scan(&status, &attempt)
	s.expect(err == nil || errors.Is(err, pgx.ErrNoRows), "read the event: %v", err)
	return status, attempt
}

// effects counts what the handler did for the event.
func (s *Story) effects(ctx context.Context, source, id string, want int) {
	var n int
	err := s.db.QueryRow(ctx, countEventEffects, source, id).Scan(&n)
	s.expect(err == nil, "count effects: %v", err)
	s.say("  effects: %d", n)
	s.expect(n == want, "%s: %d effects, want %d", id, n, want)
}
