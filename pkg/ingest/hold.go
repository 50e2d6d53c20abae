package ingest

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// atOnce is how many events of one delivery are on their way to the queue at a
// time: as many as the stores take together, and no more, so that a large batch
// leaves room for other deliveries.
const atOnce = 128

// hold puts the events on the queue within what is left of the deadline. The
// deadline outlives a client that hangs up: the events are here now. Either all
// of them are held, or the provider must send all of them again, and those that
// are held by then will be duplicates.
func (d *delivery) hold(ctx context.Context) error {
	first, repeats := d.split()
	if len(first) == 0 {
		return d.unusable()
	}
	d.rename(ctx, first, repeats)
	if err := d.keepRate(ctx); err != nil {
		return err
	}
	if err := d.holdAll(ctx, first, repeats); err != nil {
		return &unheldError{err}
	}
	d.settleReplay(ctx, first, repeats)
	return nil
}

// rename has events that are a replay held under the ids that they had first.
func (d *delivery) rename(ctx context.Context, first, repeats []*entry) {
	if d.src.Replay > 0 {
		var events []webhook.Event
		for _, e := range slices.Concat(first, repeats) {
			events = append(events, e.event)
		}
		d.findReplay(ctx, events...)
	}
	for i, e := range first {
		e.heldAs = d.heldAs(i, e.event.ID)
	}
	for i, e := range repeats {
		e.heldAs = d.heldAs(len(first)+i, e.event.ID)
	}
}

func (d *delivery) holdAll(ctx context.Context, first, repeats []*entry) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.AckTimeout-d.Now().Sub(d.readAt))
	defer cancel()
	if len(first) == 1 {
		d.enqueue(ctx, first[0])
	} else {
		d.enqueueAll(ctx, first)
	}
	for _, e := range repeats {
		d.enqueue(ctx, e)
	}
	return d.unheld()
}

// split returns the entries to enqueue: each id once, and then those that come
// with an id that the delivery has already, but with another body. An entry that
// is there twice is a duplicate of itself.
func (d *delivery) split() (first, repeats []*entry) {
	if len(d.entries) == 1 {
		if e := &d.entries[0]; e.invalid == nil && e.receipt.Outcome == "" {
			d.only[0] = e
			return d.only[:], nil
		}
		return nil, nil
	}
	seen := make(map[string]*entry, len(d.entries))
	for i := range d.entries {
		e := &d.entries[i]
		if e.invalid != nil || e.receipt.Outcome != "" {
			continue
		}
		switch before, twice := seen[e.event.ID]; {
		case !twice:
			seen[e.event.ID] = e
			first = append(first, e)
		case before.event.SHA256 == e.event.SHA256:
			e.receipt = webhook.Receipt{Outcome: webhook.Duplicate, Layer: layerBatch}
		default:
			repeats = append(repeats, e)
		}
	}
	return first, repeats
}

// layerBatch is what caught an event that one delivery has twice.
const layerBatch = "batch"

// enqueueAll enqueues many at once. A panic ends the delivery and not the
// program.
func (d *delivery) enqueueAll(ctx context.Context, entries []*entry) {
	var wg sync.WaitGroup
	next := make(chan *entry)
	for range min(atOnce, len(entries)) {
		wg.Go(func() {
			for e := range next {
				d.enqueueSafely(ctx, e)
			}
		})
	}
	for _, e := range entries {
		next <- e
	}
	close(next)
	wg.Wait()
}

func (d *delivery) enqueueSafely(ctx context.Context, e *entry) {
	defer func() {
		if r := recover(); r != nil {
			e.unheld = fmt.Errorf("panic: %v", r)
			d.Log.ErrorContext(ctx, "panic in ingest", "err", e.unheld)
		}
	}()
	d.enqueue(ctx, e)
}

func (d *delivery) enqueue(ctx context.Context, e *entry) {
	ev := e.event
	ev.ID = e.heldAs
	e.receipt, e.unheld = d.Queue.Enqueue(ctx, ev)
}

// unheld returns the first reason for which an event is not held, or nil.
func (d *delivery) unheld() error {
	for i := range d.entries {
		if err := d.entries[i].unheld; err != nil {
			return err
		}
	}
	return nil
}

// unusable returns what is wrong with a delivery of which nothing is to be
// held: nil if its events are to be ignored, or if there are none.
func (d *delivery) unusable() error {
	var err error
	for i := range d.entries {
		if d.entries[i].invalid == nil {
			return nil
		}
		if err == nil {
			err = d.entries[i].invalid
		}
	}
	return err
}
