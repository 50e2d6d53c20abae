// Package custody decides which store holds an event before it is
// acknowledged: the queue (Redis), or the inbox (Postgres), and the other one
// if the first cannot, within the deadline of the acknowledgement.
package custody

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Queue holds events as tasks. Its errors wrap [webhook.ErrNotHeld].
type Queue interface {
	// Enqueue holds the event with its body.
	Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error)
	// EnqueueKeys sends for events that the inbox holds. It returns an error, or
	// none, for each.
	EnqueueKeys(ctx context.Context, events []webhook.Event) []error
}

// An Inbox holds events as rows.
type Inbox interface {
	Insert(ctx context.Context, ev webhook.Event) (webhook.Receipt, error)
	// Offer is an Insert that nobody waits for, and that may be left out.
	Offer(ev webhook.Event)
	// Unsent says that an event which it holds could not be sent for.
	Unsent(ev webhook.Event)
}

// A Mode says which store is asked first.
type Mode string

// The modes, as INGEST_ACK names them.
const (
	QueueFirst Mode = "queue"
	InboxFirst Mode = "inbox"
)

// A Keeper holds events. Its fields are set before the first and not changed.
type Keeper struct {
	Mode  Mode
	Queue Queue
	Inbox Inbox // nil: there is only the queue
	// Sender sends for what the inbox holds, and is there if that is.
	Sender *Sender

	// Fallback lets the queue hold an event in the mode InboxFirst while
	// Postgres is away; it is asked whether Redis would keep it.
	Fallback func() bool
	// Room reports whether Redis has memory for more tasks. What is left
	// belongs to the workers: a full Redis could never drain.
	Room func() bool

	Redis, Postgres *Breaker
	// Fair is the time that a store must have had before it counts as late. One
	// that was asked at the end of a delivery's deadline, as for the last events
	// of a large batch, is not to blame.
	Fair time.Duration
}

const (
	// queueShare and inboxShare are what the first store gets of the deadline
	// when there is a second one. The inbox gets more: what the queue holds
	// instead is worth less.
	queueShare = 300 * time.Millisecond
	inboxShare = 600 * time.Millisecond
	// largeBody is what the queue takes; larger bodies go to the inbox, if there
	// is one, since asynq writes those at work to Redis again and again.
	largeBody = 64 << 10
)

// Enqueue holds the event, or returns an error that wraps [webhook.ErrNotHeld].
// An answer that came too late counts as none: the event may then be in both
// stores, which is one event all the same.
func (k *Keeper) Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	inserted := false
	inQueue := func(ctx context.Context) (webhook.Receipt, error) { return k.toQueue(ctx, ev) }
	inInbox := func(ctx context.Context) (webhook.Receipt, error) {
		r, err := k.toInbox(ctx, ev)
		inserted = err == nil && r.Outcome != webhook.Duplicate
		return r, err
	}
	if k.Inbox == nil {
		return inQueue(ctx)
	}
	instead := func(ctx context.Context) (webhook.Receipt, error) { return k.toQueueInstead(ctx, ev) }
	var r webhook.Receipt
	var err error
	switch {
	case k.Mode == InboxFirst:
		r, err = first(ctx, inboxShare, k.mayHoldInstead(), inInbox, instead)
	case len(ev.Body) > largeBody:
		r, err = first(ctx, queueShare, !k.Redis.Open(), inInbox, inQueue)
	default:
		r, err = first(ctx, queueShare, !k.Postgres.Open(), inQueue, inInbox)
	}
	if inserted {
		k.Sender.send(ev)
	}
	return r, err
}

type store func(context.Context) (webhook.Receipt, error)

// mayHoldInstead reports whether the queue may hold what the inbox cannot.
func (k *Keeper) mayHoldInstead() bool { return k.Fallback() && k.Room() && !k.Redis.Open() }

// first asks the second store if the first one does not hold the event within
// its share of the deadline, which is all of it if the second cannot either.
func first(ctx context.Context, share time.Duration, second bool, a, b store) (webhook.Receipt, error) {
	bounded, cancel := ctx, context.CancelFunc(func() {})
	if second {
		bounded, cancel = context.WithTimeout(ctx, share)
	}
	r, err := a(bounded)
	cancel()
	if err == nil {
		return r, nil
	}
	r, instead := b(ctx)
	if instead == nil {
		return r, nil
	}
	return webhook.Receipt{}, errors.Join(err, instead)
}

var errFull = errors.New("redis is at its limit of memory")

func (k *Keeper) toQueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	if !k.Room() {
		return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, errFull)
	}
	return k.through(ctx, k.Redis, func(ctx context.Context) (webhook.Receipt, error) { return k.Queue.Enqueue(ctx, ev) })
}

// toQueueInstead is for a Postgres that is away. It may merely be slow, so the
// inbox is offered the event all the same, which nobody waits for: what has a row
// is not lost with Redis.
func (k *Keeper) toQueueInstead(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	if !k.Fallback() {
		return webhook.Receipt{}, fmt.Errorf("%w: redis may not hold it instead", webhook.ErrNotHeld)
	}
	r, err := k.toQueue(ctx, ev)
	if err == nil && r.Outcome == webhook.Accepted {
		k.Inbox.Offer(ev)
	}
	return r, err
}

func (k *Keeper) toInbox(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	return k.through(ctx, k.Postgres, func(ctx context.Context) (webhook.Receipt, error) { return k.Inbox.Insert(ctx, ev) })
}

// through asks a store unless its breaker is open, and tells the breaker.
func (k *Keeper) through(ctx context.Context, b *Breaker, ask store) (webhook.Receipt, error) {
	if b.Open() {
		return webhook.Receipt{}, fmt.Errorf("%w: %s is away", webhook.ErrNotHeld, b.name)
	}
	asked := time.Now()
	r, err := ask(ctx)
	if ctx.Err() == nil || time.Since(asked) >= k.Fair {
		b.note(err)
	}
	return r, err
}
