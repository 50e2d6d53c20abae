package queue

import (
	"context"
	"encoding/hex"
	"strings"
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
	return len(c.merger.lane(source).waiting)
}

func Ended(c *Client, source string) (n int) {
	c.merger.mu.Lock()
	defer c.merger.mu.Unlock()
	for _, e := range c.merger.lane(source).waiting {
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
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	headers := map[string]string{
		"event_id": ev.ID, "event_type": ev.Type, "delivery": ev.Delivery, "sha256": hex.EncodeToString(ev.SHA256[:]),
		"content_type": valid(ev.ContentType), "received_at": ev.ReceivedAt.UTC().Format(time.RFC3339Nano),
	}
	for name, value := range ev.Headers {
		headers["header-"+name] = valid(value)
	}
	if ev.TraceParent != "" {
		headers["traceparent"] = valid(ev.TraceParent)
	}
	if conflict {
		headers["conflict"] = "1"
	}
	if ev.KeyOnly {
		headers["key_only"], ev.Body = "1", nil
	}
	return asynq.NewTaskWithHeaders(ev.Type, ev.Body, headers)
}
