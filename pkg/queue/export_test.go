package queue

import (
	"context"
	"time"
)

// What the tests look at from outside.
var (
	TaskID        = taskID
	ConflictID    = conflictID
	NewTask       = newTask
	Fetched       = fetched
	NewFetchPacer = newFetchPacer
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
