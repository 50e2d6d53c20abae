package postgres

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// due says whether the row e waits for its next attempt, and has waited long
// enough. A failed event may start up to 2 s early, since asynq keeps time in
// seconds.
const due = `
	(  e.status = 'received'
	OR e.status = 'failed' AND e.next_attempt_at <= clock_timestamp() + interval '2 seconds')`

// claimable says whether a task may start the next attempt on the row e. A dead
// event is revived by a new delivery, or by a person who had this very death
// run again. One whose worker died more than once waits as a failed one would.
const claimable = `
	(  ` + due + `
	OR e.status = 'processing' AND ` + freeAt + ` <= clock_timestamp() AND e.attempt - e.budget_from <= @max_retry
	OR e.status = 'dead' AND (e.delivery <> @delivery OR e.attempt = @revive))`

// freeAt is when somebody else may take over a running attempt.
const freeAt = `(e.lease_until + CASE WHEN e.lost > 0
	THEN least(interval '2 seconds' * power(2, least(e.lost, 13)), interval '4 hours') ELSE interval '0' END)`

// takeOver makes the row e the caller's.
const takeOver = `
	status = 'processing',
	attempt = e.attempt + 1,
	budget_from = CASE e.status WHEN 'dead' THEN e.attempt ELSE e.budget_from END,
	lost = CASE e.status WHEN 'processing' THEN e.lost + 1 ELSE 0 END,
	delivery = CASE e.status WHEN 'dead' THEN @delivery ELSE e.delivery END,
	started_at = clock_timestamp(),
	lease_until = clock_timestamp() + @lease::interval,
	next_attempt_at = NULL,
	worker = @worker,
	sweep_at = clock_timestamp() + @lease::interval,
	sweeps = 0`

// quickly lets a claim be committed without waiting for the disk: the commit
// that ends the attempt comes later in the same log and carries it. Should the
// database crash between the two, the event is as it was before the claim.
const quickly = `set_config('synchronous_commit', 'off', true)`

// An event that is new is claimed by its row. Two workers that race meet on the
// UNIQUE key.
var claimNew = named(`
INSERT INTO received_events (source, event_id, event_type, status, attempt, payload, payload_sha256,
	content_type, headers, traceparent, delivery, received_at, started_at, lease_until, worker, sweep_at)
VALUES (@source, @event_id, @event_type, 'processing', 1, @payload, @sha256,
	@content_type, @headers, @traceparent, @delivery, @received_at, clock_timestamp(),
	clock_timestamp() + @lease::interval, @worker, clock_timestamp() + @lease::interval)
ON CONFLICT (source, event_id) DO NOTHING
RETURNING ` + quickly)

// One that only waits for its turn, as most do whose tasks bring the key alone,
// is taken over by a statement that has nothing else to find out: the one below
// costs Postgres a third more.
var claimDue = named(`
UPDATE received_events AS e SET ` + takeOver + `
WHERE source = @source AND event_id = @event_id AND ` + due + `
RETURNING attempt, budget_from, event_type, content_type, headers, traceparent, delivery, received_at, payload, payload_sha256, ` + quickly)

// One that is there is taken over, or the same statement says why it is not to
// be had, by the snapshot it began with: "raced" means that the row changed
// since, and the answer is not to be trusted.
var claimOld = named(`
WITH claimed AS (
	UPDATE received_events AS e SET ` + takeOver + `
	WHERE source = @source AND event_id = @event_id AND ` + claimable + `
	RETURNING *
)` + claimAnswer)

const claimAnswer = `, lost AS (
	INSERT INTO event_attempts (source, event_id, attempt, kind, error, ended_at, worker)
	SELECT source, event_id, attempt - 1, 'lost', 'the worker died or stalled past its lease', clock_timestamp(), ''
	FROM claimed WHERE lost > 0
	ON CONFLICT DO NOTHING
)
SELECT true AS mine, false AS raced, status, attempt, budget_from, lost, payload_sha256 <> @sha256 AS other_body,
	interval '0' AS wait, false AS spent, event_type, content_type, headers, traceparent, delivery, received_at,
	CASE WHEN payload_sha256 <> @sha256 OR @key_only THEN payload END AS payload, payload_sha256, ` + quickly + ` AS quickly
FROM claimed
UNION ALL
SELECT false, ` + claimable + `, status, attempt, budget_from, lost, payload_sha256 <> @sha256,
	greatest(coalesce(` + freeAt + `, next_attempt_at) - clock_timestamp(), interval '0'),
	status = 'processing' AND lease_until <= clock_timestamp() AND attempt - budget_from > @max_retry, '', '', '{}', '', '', received_at, NULL, payload_sha256, ''
FROM received_events AS e
WHERE source = @source AND event_id = @event_id AND NOT EXISTS (SELECT FROM claimed)`

type claimRow struct {
	Mine          bool
	Raced         bool
	Status        webhook.Status
	Attempt       int
	BudgetFrom    int
	Lost          int
	OtherBody     bool
	Wait          time.Duration
	Spent         bool
	EventType     string
	ContentType   string
	Headers       map[string]string
	Traceparent   string
	Delivery      string
	ReceivedAt    time.Time
	Payload       []byte
	PayloadSHA256 []byte `db:"payload_sha256"`
	Quickly       string
}

// Claim asks for the next attempt on ev for worker. revive is the attempt of
// the death that a person had run again, or 0. If the event is already stored,
// what is stored is handed out, and ev only says which event is meant. If ev is
// KeyOnly and nothing is stored, the error is [webhook.ErrNotFound].
//
// A [webhook.BusyError] means that the row could not be read or locked in
// time, [webhook.ErrUnavailable] that the database is away.
func (s *Store) Claim(ctx context.Context, ev webhook.Event, worker string, terms webhook.Terms, revive int) (webhook.Claim, error) {
	args := eventArgs(ev)
	args["worker"] = worker
	args["lease"] = terms.Lease()
	args["max_retry"] = terms.MaxRetry
	args["revive"] = revive
	args["key_only"] = ev.KeyOnly
	conn, err := s.db.Acquire(ctx)
	if err != nil {
		return webhook.Claim{}, unavailable(fmt.Errorf("claim %s/%s: %w", ev.Source, ev.ID, err))
	}
	defer conn.Release()
	sent := time.Now() // not before: to wait for a connection is not to work
	c, err := s.claim(ctx, conn, ev, args)
	switch {
	case errors.Is(err, webhook.ErrNotFound):
		return webhook.Claim{}, err
	case code(err) == lockNotAvailable, again(err), errors.Is(err, errRaced):
		return webhook.Claim{}, &webhook.BusyError{After: time.Second}
	case err != nil:
		return webhook.Claim{}, unavailable(fmt.Errorf("claim %s/%s: %w", ev.Source, ev.ID, err))
	}
	c.Worker, c.Terms, c.Deadline = worker, terms, sent.Add(terms.Timeout)
	return c, nil
}

// errRaced means that the row changed while it was looked at.
var errRaced = errors.New("the row has changed since")

func (s *Store) claim(ctx context.Context, conn *pgxpool.Conn, ev webhook.Event, args pgx.NamedArgs) (webhook.Claim, error) {
	if ev.KeyOnly {
		row, err := takeDue(ctx, conn, args)
		switch {
		case err == nil:
			return row.claim(ev), nil
		case !errors.Is(err, pgx.ErrNoRows):
			return webhook.Claim{}, err
		}
	} else {
		tag, err := conn.Exec(ctx, claimNew.sql, claimNew.args(args)...)
		if err != nil {
			return webhook.Claim{}, err
		}
		if tag.RowsAffected() == 1 {
			return firstClaim(ev), nil
		}
	}
	rows, _ := conn.Query(ctx, claimOld.sql, claimOld.args(args)...) // the error comes out of the collector
	row, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[claimRow])
	switch {
	case errors.Is(err, pgx.ErrNoRows) && ev.KeyOnly:
		return webhook.Claim{}, webhook.ErrNotFound
	case errors.Is(err, pgx.ErrNoRows), err == nil && row.Raced:
		return webhook.Claim{}, errRaced
	case err != nil:
		return webhook.Claim{}, err
	}
	c := row.claim(ev)
	if c.OtherBody && s.same != nil {
		stored := row.Payload
		if stored == nil {
			stored = storedBody(ctx, conn, ev)
		}
		c.OtherBody = !s.same(ev.Source, stored, ev.Body)
	}
	return c, nil
}

func takeDue(ctx context.Context, conn *pgxpool.Conn, args pgx.NamedArgs) (claimRow, error) {
	r := claimRow{Mine: true, Status: webhook.Processing}
	err := conn.QueryRow(ctx, claimDue.sql, claimDue.args(args)...).Scan(&r.Attempt, &r.BudgetFrom, &r.EventType, &r.ContentType,
		&r.Headers, &r.Traceparent, &r.Delivery, &r.ReceivedAt, &r.Payload, &r.PayloadSHA256, &r.Quickly)
	return r, err
}

func firstClaim(ev webhook.Event) webhook.Claim {
	ev.Attempt = 1
	return webhook.Claim{Mine: true, Event: ev, Status: webhook.Processing, Attempt: 1}
}

func (r claimRow) claim(ev webhook.Event) webhook.Claim {
	c := webhook.Claim{
		Mine: r.Mine, BudgetFrom: r.BudgetFrom, Lost: r.Lost,
		Status: r.Status, Attempt: r.Attempt, Wait: r.Wait, Spent: r.Spent, OtherBody: r.OtherBody && !ev.KeyOnly,
	}
	if !r.Mine {
		return c
	}
	c.Event = webhook.Event{
		Source: ev.Source, ID: ev.ID, Type: r.EventType, Delivery: r.Delivery, ContentType: r.ContentType,
		Headers: r.Headers, TraceParent: r.Traceparent, ReceivedAt: r.ReceivedAt, Body: ev.Body,
		SHA256: [32]byte(r.PayloadSHA256), Attempt: r.Attempt,
	}
	if r.Payload != nil {
		c.Event.Body = r.Payload
	}
	return c
}

// eventArgs are the columns that come from a delivery. What HTTP allows and
// text does not (bytes that are no UTF-8) is replaced, but in the payload.
func eventArgs(ev webhook.Event) pgx.NamedArgs {
	return pgx.NamedArgs{
		"source":       ev.Source,
		"event_id":     ev.ID,
		"event_type":   ev.Type,
		"payload":      payload(ev.Body),
		"sha256":       ev.SHA256[:],
		"content_type": text(ev.ContentType),
		"headers":      headersJSON(ev.Headers),
		"traceparent":  text(ev.TraceParent),
		"delivery":     ev.Delivery,
		"received_at":  ev.ReceivedAt,
	}
}

// payload is never nil, which would be stored as NULL: purged.
func payload(body []byte) []byte {
	if body == nil {
		return []byte{}
	}
	return body
}

// headersJSON is text, which every mode of the protocol can carry.
func headersJSON(headers map[string]string) string {
	if len(headers) == 0 {
		return "{}" // most sources keep none
	}
	storable := make(map[string]string, len(headers))
	for k, v := range headers {
		storable[text(k)] = text(v)
	}
	b, _ := json.Marshal(storable) // of strings: it cannot fail
	return string(b)
}

// text makes s storable: Postgres' text holds UTF-8 without NUL.
func text(s string) string {
	return strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
}

const insertConflict = `
INSERT INTO payload_conflicts (source, event_id, payload_sha256, payload, content_type, delivery, received_at)
VALUES (@source, @event_id, @sha256, @payload, @content_type, @delivery, @received_at)
ON CONFLICT DO NOTHING`

// KeepConflict keeps the body of a delivery whose id belongs to an event with
// another body. A body that is kept already is not kept twice.
func (s *Store) KeepConflict(ctx context.Context, ev webhook.Event) error {
	if s.sameBody(ctx, ev) {
		return nil
	}
	if _, err := s.db.Exec(ctx, insertConflict, eventArgs(ev)); err != nil {
		return unavailable(fmt.Errorf("keep other body of %s/%s: %w", ev.Source, ev.ID, err))
	}
	return nil
}

// sameBody reports whether ev's body is the stored one all the same.
func (s *Store) sameBody(ctx context.Context, ev webhook.Event) bool {
	return s.same != nil && s.same(ev.Source, storedBody(ctx, s.db, ev), ev.Body)
}

const selectBody = `SELECT payload FROM received_events WHERE source = @source AND event_id = @event_id`

// storedBody returns nil if the body cannot be had: then it is another one.
func storedBody(ctx context.Context, db interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}, ev webhook.Event) (body []byte) {
	if err := db.QueryRow(ctx, selectBody, pgx.NamedArgs{"source": ev.Source, "event_id": ev.ID}).Scan(&body); err != nil {
		return nil
	}
	return body
}
