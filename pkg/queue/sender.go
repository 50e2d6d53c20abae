package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// EnqueueKey sends for an event that Postgres holds, by a task that carries
// only its key. A task of the event that is there already will do: an archived
// one is run, and one that lost its message is replaced.
func (c *Client) EnqueueKey(ctx context.Context, ev webhook.Event) error {
	ev.KeyOnly = true
	for range 2 {
		found, err := c.enqueue(ctx, ev, false)
		switch {
		case err == nil && (found == nil || found.state != stateCompleted):
			return nil
		case err != nil && !errors.Is(err, errBroken):
			return notHeld(ev, err)
		}
		// A completed one did what there was to do then, and Postgres knows of more.
		if err := forget(ctx, c.rdb, ev.Source, taskID(ev.ID)); err != nil {
			return notHeld(ev, err)
		}
	}
	return notHeld(ev, errors.New("its task came again when it was deleted"))
}

// EnqueueKeys is [Client.EnqueueKey] for many at once, and returns what it
// returned for each.
func (c *Client) EnqueueKeys(ctx context.Context, events []webhook.Event) []error {
	errs := make([]error, len(events))
	var wg sync.WaitGroup
	for i, ev := range events {
		wg.Go(func() { errs[i] = c.EnqueueKey(ctx, ev) })
	}
	wg.Wait()
	return errs
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
