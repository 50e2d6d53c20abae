package queue

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// What the tests look at from outside.
var (
	TaskID        = taskID
	ConflictID    = conflictID
	Encode        = encode
	Fetched       = fetched
	NewFetchPacer = newFetchPacer
	NewPoller     = newPoller
	DeathIn       = deathIn
	RetryDelay    = retryDelay
)

// Drain is how long attempts may finish after the end of Serve's context.
const Drain = drain

// RegisterEvery sets how often s registers its queues. Call it before Serve.
func (s *Server) RegisterEvery(d time.Duration) { s.registerEvery = d }

// UsedShare reads the answer of INFO memory.
var UsedShare = usedShare

// Look looks once.
func (m *Memory) Look(ctx context.Context) { m.look(ctx) }

// SetNow lets the repairer believe that it is another time.
func (r *Repairer) SetNow(now func() time.Time) { r.now = now }

// Waiting is how many tasks of a source wait for the batch under way, and Ended
// how many of them nobody waits for any more.
func Waiting(c *Client, source string) int {
	c.merger.mu.Lock()
	defer c.merger.mu.Unlock()
	return len(c.merger.lanes[source].waiting)
}

func Ended(c *Client, source string) (n int) {
	c.merger.mu.Lock()
	defer c.merger.mu.Unlock()
	for _, e := range c.merger.lanes[source].waiting {
		if e.ctx.Err() != nil {
			n++
		}
	}
	return n
}

// BatchSize is how many of so many tasks, of so many bytes each, go at once.
func BatchSize(tasks, bytes int) int {
	waiting := make([]*enqueueing, tasks)
	for i := range waiting {
		waiting[i] = &enqueueing{msg: make([]byte, bytes)}
	}
	return batchSize(waiting)
}

// NewTask is the task as asynq's own client would be given it.
func NewTask(ev webhook.Event, conflict bool) *asynq.Task {
	headers := map[string]string{}
	eachHeader(ev, conflict, func(name, value string) { headers[name] = value })
	if ev.KeyOnly {
		ev.Body = nil
	}
	return asynq.NewTaskWithHeaders(ev.Type, ev.Body, headers)
}
