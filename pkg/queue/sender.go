package queue

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// EnqueueKeys sends for events that Postgres holds, by tasks that carry only
// their keys, and returns an error or none for each. A task of an event that is
// there already will do: an archived one is run, and one that lost its message is
// replaced.
//
// They are submitted together: a goroutine for each cost more than the task.
func (c *Client) EnqueueKeys(ctx context.Context, events []webhook.Event) []error {
	errs := make([]error, len(events))
	tasks := make([]*enqueueing, 0, len(events))
	var made []int // the events of tasks
	for i, ev := range events {
		ev.KeyOnly = true
		task, err := c.task(ctx, ev, false)
		if err != nil {
			errs[i] = notHeld(ev, err)
			continue
		}
		tasks, made = append(tasks, task), append(made, i)
	}
	c.merger.submit(tasks...)
	var again []int // the events whose tasks are useless; the others do not wait for them
	for n, i := range made {
		found, err := c.found(ctx, tasks[n])
		if useless(found, err) {
			again = append(again, i)
		} else if err != nil {
			errs[i] = notHeld(events[i], err)
		}
	}
	for _, i := range again {
		if err := c.replace(ctx, events[i]); err != nil {
			errs[i] = notHeld(events[i], err)
		}
	}
	return errs
}

// EnqueueKey is [Client.EnqueueKeys] for one.
func (c *Client) EnqueueKey(ctx context.Context, ev webhook.Event) error {
	return c.EnqueueKeys(ctx, []webhook.Event{ev})[0]
}

// useless reports whether what a task met does not send for its event: one that
// is broken, or a completed one, which did what there was to do then, and
// Postgres knows of more.
func useless(found *meeting, err error) bool {
	return errors.Is(err, errBroken) || err == nil && found != nil && found.state == stateCompleted
}

// replace sends for an event whose task is useless.
func (c *Client) replace(ctx context.Context, ev webhook.Event) error {
	if err := forget(ctx, c.rdb, ev.Source, taskID(ev.ID)); err != nil {
		return err
	}
	ev.KeyOnly = true
	found, err := c.enqueue(ctx, ev, false)
	if useless(found, err) {
		return errors.New("its task came again when it was deleted")
	}
	return err
}

// Send makes sure that there is a task for each of the events, which Postgres
// holds, and returns for how many there was none that could run. One pipeline
// asks for all.
func (c *Client) Send(ctx context.Context, events []webhook.Event) (sent int, err error) {
	if err := meetTask.Load(ctx, c.rdb).Err(); err != nil {
		return 0, fmt.Errorf("load script: %w", err)
	}
	looks := make([]*redis.Cmd, len(events))
	_, err = c.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i, ev := range events {
			keys, args := c.meetArgs(ev)
			looks[i] = pipe.EvalSha(ctx, meetTask.Hash(), keys, args...)
		}
		return nil
	})
	if err != nil {
		return 0, fmt.Errorf("look for %d tasks: %w", len(events), err)
	}
	for i, ev := range events {
		found, err := readMeeting(looks[i].StringSlice())
		switch {
		case err != nil && !errors.Is(err, errBroken):
			return sent, err
		case err == nil && found.state == stateArchived: // it runs again
			sent++
			continue
		case err == nil && !found.gone && found.state != stateCompleted:
			continue
		}
		if err := c.EnqueueKey(ctx, ev); err != nil {
			return sent, err
		}
		sent++
	}
	return sent, nil
}
