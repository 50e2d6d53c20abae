package custody

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"time"
)

// A Breaker remembers that a store is away, so that deliveries do not wait for
// it. It opens after three late answers in a row or one refused connection, and
// closes when a probe of its own succeeds.
type Breaker struct {
	name  string
	probe func(context.Context) error
	log   *slog.Logger

	mu   sync.Mutex
	late int
	open bool
	wake chan struct{} // sent to when it opens
}

// NewBreaker returns a closed breaker for the store of that name. probe asks
// the store; it is called only while the breaker is open.
func NewBreaker(name string, probe func(context.Context) error, log *slog.Logger) *Breaker {
	return &Breaker{name: name, probe: probe, log: log, wake: make(chan struct{}, 1)}
}

const (
	lateLimit  = 3
	probeEvery = 200 * time.Millisecond
	probeLimit = 500 * time.Millisecond
)

// Open reports whether the store counts as away.
func (b *Breaker) Open() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open
}

// note learns from the outcome of one request.
func (b *Breaker) note(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case refused(err):
		b.late = lateLimit
	case isLate(err):
		b.late++
	default: // an answer, even one that says no
		b.late = 0
	}
	if b.late >= lateLimit && !b.open {
		b.open = true
		b.log.Error("store is away: deliveries do not wait for it", "store", b.name, "err", err)
		select {
		case b.wake <- struct{}{}:
		default:
		}
	}
}

func refused(err error) bool {
	op, ok := errors.AsType[*net.OpError](err)
	return ok && op.Op == "dial"
}

func isLate(err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)
}

// Run probes while the breaker is open, until ctx ends.
func (b *Breaker) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.wake:
		}
		if !b.recover(ctx) {
			return nil
		}
	}
}

// recover probes until the store answers; false means that ctx ended.
func (b *Breaker) recover(ctx context.Context) bool {
	tick := time.NewTicker(probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		bounded, cancel := context.WithTimeout(ctx, probeLimit)
		err := b.probe(bounded)
		cancel()
		if err == nil {
			b.mu.Lock()
			b.open, b.late = false, 0
			b.mu.Unlock()
			b.log.Info("store is back", "store", b.name)
			return true
		}
	}
}
