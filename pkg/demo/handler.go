package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Handler acts out the story: what it does depends on the event's type. Its
// effect is a row of demo_effects.
type Handler struct {
	mu    sync.Mutex
	begun map[string]chan struct{} // by event id: closed when its handler first runs
	wakes chan struct{}            // closed to wake the stalled handler
	woken chan struct{}            // closed when it has written
}

func newHandler() *Handler {
	return &Handler{begun: map[string]chan struct{}{}, wakes: make(chan struct{}), woken: make(chan struct{})}
}

// started returns a channel that is closed once the event's handler runs.
func (h *Handler) started(id string) <-chan struct{} { return h.signal(id) }

func (h *Handler) signal(id string) chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.begun[id] == nil {
		h.begun[id] = make(chan struct{})
	}
	return h.begun[id]
}

func (h *Handler) begin(id string) {
	c := h.signal(id)
	h.mu.Lock()
	defer h.mu.Unlock()
	select {
	case <-c:
	default:
		close(c)
	}
}

func (h *Handler) wake() { close(h.wakes) }

// Handle acts as the event's type says.
func (h *Handler) Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	h.begin(ev.ID)
	switch ev.Type {
	case "slow":
		select {
		case <-time.After(2 * time.Second): // the work
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	case "flaky":
		if ev.Attempt < 3 {
			return fmt.Errorf("the bank does not answer (attempt %d)", ev.Attempt)
		}
	case "poison":
		if ev.Attempt == 1 {
			return webhook.Permanent(errors.New("the account is closed"))
		}
	case "stalled":
		if ev.Attempt == 1 {
			defer close(h.woken)
			<-h.wakes
		}
	}
	_, err := tx.Exec(ctx, insertEffect, ev.Source, ev.ID, ev.Attempt)
	return err
}
