package postgres

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// An Inbox holds events as rows, before any attempt. Deliveries that come at
// the same time share one statement.
type Inbox struct {
	store  *Store
	jobs   chan *insertion
	unsent chan webhook.Event

	offered atomic.Int64 // bytes of the bodies that nobody waits for
}

// An insertion is one delivery on its way into a batch.
type insertion struct {
	ev   webhook.Event
	done chan struct{} // closed when the rest is set

	offered bool // nobody waits for it

	receipt webhook.Receipt
	err     error
}

const (
	inboxBatch   = 256
	inboxTimeout = 2 * time.Second
	// inboxWriters is how many batches may be under way, and inboxPatience how
	// long the next one waits for those that are: most of what a small one takes.
	// With more, whoever comes behind a batch waits for two; with less, the
	// batches are so small that Postgres does the same for fewer events.
	inboxWriters  = 4
	inboxPatience = 300 * time.Microsecond
	// offeredBytes bounds the bodies that nobody waits for, since no delivery
	// answers for their memory any more.
	offeredBytes = 16 << 20
)

// NewInbox returns an inbox. Nothing is inserted unless [Inbox.Run] runs.
func (s *Store) NewInbox() *Inbox {
	return &Inbox{store: s, jobs: make(chan *insertion, inboxBatch), unsent: make(chan webhook.Event, unsentLimit)}
}

// Insert holds the event and says whether it is new: of one that is there
// already it is a duplicate, and one that is dead is set to run again. A body
// that differs from the event's is kept beside it.
//
// An error wraps [webhook.ErrNotHeld]; the event may be held all the same, if
// ctx ended first.
func (b *Inbox) Insert(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	job := &insertion{ev: ev, done: make(chan struct{})}
	select {
	case b.jobs <- job:
	case <-ctx.Done():
		return webhook.Receipt{}, notHeld(ev, ctx.Err())
	}
	select {
	case <-job.done:
		if job.err != nil {
			return webhook.Receipt{}, notHeld(ev, job.err)
		}
		return job.receipt, nil
	case <-ctx.Done():
		return webhook.Receipt{}, notHeld(ev, ctx.Err())
	}
}

// Offer hands the event over if there is room, and does not wait for it.
func (b *Inbox) Offer(ev webhook.Event) {
	size := int64(len(ev.Body))
	if b.offered.Add(size) <= offeredBytes {
		select {
		case b.jobs <- &insertion{ev: ev, done: make(chan struct{}), offered: true}:
			return
		default:
		}
	}
	b.offered.Add(-size)
}

func notHeld(ev webhook.Event, err error) error {
	return fmt.Errorf("insert %s/%s: %w: %w", ev.Source, ev.ID, webhook.ErrNotHeld, err)
}

// Run inserts until ctx ends, and what was handed over before.
//
// While a batch is under way the next one gathers, since fewer and larger ones
// cost both sides less. But not for long: what one waits for is the disk, and if
// Postgres has much to do it shares its processors out by connection.
func (b *Inbox) Run(ctx context.Context) error {
	var wg sync.WaitGroup
	wg.Go(func() { b.hasten(ctx) })
	under := 0 // batches under way
	ended := make(chan struct{}, inboxWriters)
	for ctx.Err() == nil {
		select {
		case job := <-b.jobs:
			under = turn(under, ended) + 1
			batch := b.collect(job)
			wg.Go(func() {
				b.write(batch)
				ended <- struct{}{}
			})
		case <-ended:
			under--
		case <-ctx.Done():
		}
	}
	wg.Wait()
	for {
		select {
		case job := <-b.jobs:
			b.write(b.collect(job))
		default:
			return nil
		}
	}
}

// turn returns how many batches of those under way are left when the next one
// may begin.
func turn(under int, ended <-chan struct{}) int {
	if under == 0 {
		return 0
	}
	patience := time.NewTimer(inboxPatience)
	defer patience.Stop()
	for late := false; under > 0 && (!late || under == inboxWriters); {
		select {
		case <-ended:
			under--
		case <-patience.C:
			late = true
		}
	}
	return under
}

// collect takes what waits, and waits for nothing.
func (b *Inbox) collect(job *insertion) []*insertion {
	batch := []*insertion{job}
	for len(batch) < inboxBatch {
		select {
		case job := <-b.jobs:
			batch = append(batch, job)
		default:
			return batch
		}
	}
	return batch
}

// write inserts a batch. A row that somebody else holds must not stall the
// others, so if the statement meets one, each row goes alone; and all of it has
// one limit, or a locked table would hold up the end of the program.
func (b *Inbox) write(batch []*insertion) {
	ctx, cancel := context.WithTimeout(context.Background(), inboxTimeout)
	defer cancel()
	err := b.insert(ctx, batch)
	if c := code(err); c != lockNotAvailable && c != deadlockDetected || len(batch) == 1 {
		b.finish(batch, err)
		return
	}
	var rest []*insertion
	for i, job := range batch {
		if job.accepted() { // before the statement that met the row
			b.finish(batch[i:i+1], nil)
		} else {
			rest = append(rest, job)
		}
	}
	for i := range rest {
		b.finish(rest[i:i+1], b.insert(ctx, rest[i:i+1]))
	}
}

// finish answers. What was inserted is held, whatever befell the others of the
// batch afterwards.
func (b *Inbox) finish(batch []*insertion, err error) {
	for _, job := range batch {
		if job.offered {
			b.offered.Add(-int64(len(job.ev.Body)))
		}
		if !job.accepted() {
			job.err = unavailable(err)
		}
		close(job.done)
	}
}

func (j *insertion) accepted() bool { return j.receipt.Outcome == webhook.Accepted }

type eventKey struct{ source, id string }

func (j *insertion) key() eventKey { return eventKey{j.ev.Source, j.ev.ID} }

// insert holds the events of the batch: the first of each key is inserted, and
// the others are compared with what is there then.
func (b *Inbox) insert(ctx context.Context, batch []*insertion) error {
	var firsts, rest []*insertion
	seen := map[eventKey]bool{}
	for _, job := range batch {
		if seen[job.key()] {
			rest = append(rest, job)
			continue
		}
		seen[job.key()] = true
		firsts = append(firsts, job)
	}
	inserted, err := b.store.insertReceived(ctx, firsts)
	if err != nil {
		return err
	}
	for _, job := range firsts {
		if inserted[job.key()] {
			job.receipt = webhook.Receipt{Outcome: webhook.Accepted}
		} else {
			rest = append(rest, job)
		}
	}
	if len(rest) == 0 {
		return nil
	}
	return b.store.compare(ctx, rest)
}

// Without the anti-join, ON CONFLICT would wait for whoever is about to commit
// the same key: one completion would block a whole batch. The rows are sorted,
// so that two batches lock in the same order.
var insertReceived = named(`
INSERT INTO received_events (source, event_id, event_type, status, payload, payload_sha256, content_type, headers,
	traceparent, delivery, received_at, sweep_at)
SELECT v.source, v.event_id, v.event_type, 'received', v.payload, v.sha256, v.content_type, v.headers::jsonb,
	v.traceparent, v.delivery, v.received_at, clock_timestamp() + interval '30 seconds'
FROM unnest(@source::text[], @event_id::text[], @event_type::text[], @payload::bytea[], @sha256::bytea[],
	@content_type::text[], @headers::text[], @traceparent::text[], @delivery::text[], @received_at::timestamptz[])
	AS v (source, event_id, event_type, payload, sha256, content_type, headers, traceparent, delivery, received_at)
WHERE NOT EXISTS (SELECT FROM received_events e WHERE e.source = v.source AND e.event_id = v.event_id)
ORDER BY v.source, v.event_id
ON CONFLICT (source, event_id) DO NOTHING
RETURNING source, event_id`)

func (s *Store) insertReceived(ctx context.Context, jobs []*insertion) (map[eventKey]bool, error) {
	rows, err := s.db.Query(ctx, insertReceived.sql, insertReceived.args(columns(jobs))...)
	if err != nil {
		return nil, err
	}
	inserted := map[eventKey]bool{}
	var k eventKey
	_, err = pgx.ForEachRow(rows, []any{&k.source, &k.id}, func() error {
		inserted[k] = true
		return nil
	})
	return inserted, err
}

// columns are [eventArgs] of many events, in slices of types that pgx can encode
// without reflection.
func columns(jobs []*insertion) pgx.NamedArgs {
	return pgx.NamedArgs{
		"source":       column(jobs, func(ev *webhook.Event) string { return ev.Source }),
		"event_id":     column(jobs, func(ev *webhook.Event) string { return ev.ID }),
		"event_type":   column(jobs, func(ev *webhook.Event) string { return ev.Type }),
		"payload":      column(jobs, func(ev *webhook.Event) []byte { return payload(ev.Body) }),
		"sha256":       column(jobs, func(ev *webhook.Event) []byte { return ev.SHA256[:] }),
		"content_type": column(jobs, func(ev *webhook.Event) string { return text(ev.ContentType) }),
		"headers":      column(jobs, func(ev *webhook.Event) string { return headersJSON(ev.Headers) }),
		"traceparent":  column(jobs, func(ev *webhook.Event) string { return text(ev.TraceParent) }),
		"delivery":     column(jobs, func(ev *webhook.Event) string { return ev.Delivery }),
		"received_at":  column(jobs, func(ev *webhook.Event) time.Time { return ev.ReceivedAt }),
	}
}

func column[T any](jobs []*insertion, of func(*webhook.Event) T) []T {
	values := make([]T, len(jobs))
	for i, job := range jobs {
		values[i] = of(&job.ev)
	}
	return values
}

// A dead event runs again with its full budget: this delivery is a new one.
const reviveEvent = `
UPDATE received_events SET
	status = 'received', budget_from = attempt, lost = 0, delivery = @delivery,
	sweep_at = clock_timestamp() + interval '30 seconds', sweeps = 0
WHERE source = @source AND event_id = @event_id AND status = 'dead'`

const selectKnown = `
SELECT status, payload_sha256 <> @sha256 FROM received_events WHERE source = @source AND event_id = @event_id`

// compare answers deliveries of events that are there.
func (s *Store) compare(ctx context.Context, jobs []*insertion) error {
	batch := &pgx.Batch{}
	for _, job := range jobs {
		args := eventArgs(job.ev)
		batch.Queue(reviveEvent, args).Exec(func(tag pgconn.CommandTag) error {
			job.receipt = webhook.Receipt{Outcome: webhook.Duplicate, Layer: "postgres"}
			if tag.RowsAffected() == 1 {
				job.receipt = webhook.Receipt{Outcome: webhook.Requeued}
			}
			return nil
		})
		batch.Queue(selectKnown, args).QueryRow(func(row pgx.Row) error {
			var status webhook.Status
			err := row.Scan(&status, &job.receipt.OtherBody)
			job.receipt.Done = status == webhook.Completed
			return err
		})
	}
	if err := s.db.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	for _, job := range jobs {
		if job.receipt.OtherBody && s.sameBody(ctx, job.ev) {
			job.receipt.OtherBody = false
		}
		if job.receipt.OtherBody {
			if err := s.KeepConflict(ctx, job.ev); err != nil {
				return err
			}
		}
	}
	return nil
}
