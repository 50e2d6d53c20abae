package queue

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Client puts events on their queues. It may be used from many goroutines.
type Client struct {
	rdb      redis.UniversalClient
	merger   *merger
	settings map[string]Settings
	now      func() time.Time

	registered sync.Map // source -> true: dashboards know its queue
}

// NewClient returns a client for the sources in settings. It does not close rdb.
func NewClient(rdb redis.UniversalClient, settings map[string]Settings) *Client {
	return &Client{rdb: rdb, merger: newMerger(rdb), settings: settings, now: time.Now}
}

// Enqueue puts ev on its source's queue, once: a copy of an event that is in
// hand or was done lately is a duplicate, one of a dead event sets that event
// running again. The deadline of ctx holds.
//
// An error wraps [webhook.ErrNotHeld]. The event may be queued nevertheless, if
// Redis' answer was lost; the provider's next try is then a duplicate.
func (c *Client) Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	found, err := c.enqueue(ctx, ev, false)
	switch {
	case err != nil:
		return webhook.Receipt{}, notHeld(ev, err)
	case found == nil:
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	return c.receipt(ctx, ev, *found)
}

// unknownTimeout is for sources whose settings are not at hand: longer than
// any. The worker's own deadline decides.
const unknownTimeout = 15 * time.Minute

func notHeld(ev webhook.Event, err error) error {
	return fmt.Errorf("enqueue %s/%s: %w: %w", ev.Source, ev.ID, webhook.ErrNotHeld, err)
}

// enqueue returns what it met, if the task was not new. conflict is whether the
// task brings a second body of its event.
func (c *Client) enqueue(ctx context.Context, ev webhook.Event, conflict bool) (*meeting, error) {
	task, err := c.task(ctx, ev, conflict)
	if err != nil {
		return nil, err
	}
	c.merger.submit(task)
	return c.found(ctx, task)
}

// task makes the event's task, which is not on its way yet.
func (c *Client) task(ctx context.Context, ev webhook.Event, conflict bool) (*enqueueing, error) {
	s, known := c.settings[ev.Source]
	if !known { // a person sends for an event
		s.Timeout = unknownTimeout
	}
	id := taskID(ev.ID)
	if conflict {
		id = conflictID(ev.ID, ev.SHA256)
	}
	if _, done := c.registered.Load(ev.Source); !done {
		if err := register(ctx, c.rdb, ev.Source); err != nil {
			return nil, err
		}
		c.registered.Store(ev.Source, true)
	}
	return newEnqueueing(ctx, ev.Source, id, encode(ev, conflict, id, s), c.now()), nil
}

// found waits for what the task met, if it was not new.
func (c *Client) found(ctx context.Context, task *enqueueing) (*meeting, error) {
	met := task.wait()
	switch {
	case met.err != nil:
		return nil, met.err
	case met.state == "":
		return nil, nil
	case met.state == stateArchived: // it runs again, and people shall see it
		return &met, register(ctx, c.rdb, task.source)
	}
	return &met, nil
}

// receipt says what became of a delivery whose event had a task already. A
// second body travels to the worker in a task of its own.
func (c *Client) receipt(ctx context.Context, ev webhook.Event, found meeting) (webhook.Receipt, error) {
	r := webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", Done: found.state == stateCompleted}
	if found.state == stateArchived {
		r = webhook.Receipt{Outcome: webhook.Requeued}
	}
	if found.sha256 == "" || found.sha256 == shaText(ev) || c.sameBody(ctx, ev) {
		return r, nil
	}
	r.OtherBody = true
	if _, err := c.enqueue(ctx, ev, true); err != nil {
		return webhook.Receipt{}, notHeld(ev, err)
	}
	return r, nil
}

// sameBody asks whether the task's body is ev's all the same, which takes
// another look at it. A task without a body cannot say so; then the worker asks.
func (c *Client) sameBody(ctx context.Context, ev webhook.Event) bool {
	same := c.settings[ev.Source].Same
	if same == nil {
		return false
	}
	result := make(chan bool, 1) // the look has no deadline but that of its connection
	go func() {
		info, err := asynq.NewInspectorFromRedisClient(c.rdb).GetTaskInfo(ev.Source, taskID(ev.ID))
		result <- err == nil && same(info.Payload, ev.Body)
	}()
	select {
	case is := <-result:
		return is
	case <-ctx.Done():
		return false
	}
}

// ceilSecond rounds up, since asynq keeps whole seconds and cuts the rest off.
func ceilSecond(d time.Duration) time.Duration {
	return (d + time.Second - 1).Truncate(time.Second)
}
