package faults

import (
	"sync"
	"testing"
	"time"
)

// A pulse is a goroutine that only sleeps, and notes how much too late it wakes:
// so long the machine stalled.
type pulse struct {
	mu    sync.Mutex
	beats []beat
}

// A beat is one waking that was late.
type beat struct {
	at   time.Time
	late time.Duration
}

const (
	beatEvery = 50 * time.Millisecond
	lateBeat  = 10 * time.Millisecond // earlier is not worth a note
)

func newPulse(tb testing.TB) *pulse {
	tb.Helper()
	p := &pulse{}
	done := make(chan struct{})
	tb.Cleanup(func() { close(done) })
	go func() {
		for last := time.Now(); ; {
			select {
			case <-done:
				return
			case <-time.After(beatEvery):
			}
			now := time.Now()
			if late := now.Sub(last) - beatEvery; late > lateBeat {
				p.mu.Lock()
				p.beats = append(p.beats, beat{now, late})
				p.mu.Unlock()
			}
			last = now
		}
	}()
	return p
}

// worst is the longest stall that ended within a time.
func (p *pulse) worst(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var worst time.Duration
	for _, b := range p.beats {
		if b.at.After(from) && b.at.Before(to) {
			worst = max(worst, b.late)
		}
	}
	return worst
}
