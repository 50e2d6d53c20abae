// Package payments is the built-in handler that books a payment: one row of
// the table payments for each event.
package payments

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Handler books the amount that stands at a place in the body.
type Handler struct {
	amount payload.Pointer
}

// New returns a handler that reads the amount, an integer in minor units, at
// the given place.
func New(amount payload.Pointer) *Handler { return &Handler{amount} }

const insertPayment = `
INSERT INTO payments (source, event_id, event_type, amount, attempt)
VALUES (@source, @event_id, @event_type, @amount, @attempt)`

// Handle books the payment. A body without a usable amount will not get better,
// so that is a permanent error.
func (h *Handler) Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	amount, err := h.read(ev.Body)
	if err != nil {
		return webhook.Permanent(fmt.Errorf("amount at %q: %w", h.amount, err))
	}
	_, err = tx.Exec(ctx, insertPayment, pgx.NamedArgs{
		"source":     ev.Source,
		"event_id":   ev.ID,
		"event_type": ev.Type,
		"amount":     amount,
		"attempt":    ev.Attempt,
	})
	if err != nil {
		return fmt.Errorf("book payment of %s: %w", ev.IdempotencyKey(), err)
	}
	return nil
}

func (h *Handler) read(body []byte) (int64, error) {
	found, err := payload.Scan(body, h.amount)
	if err != nil {
		return 0, err
	}
	amount, err := found[0].Integer()
	if err == nil && amount < 0 {
		err = fmt.Errorf("%d is negative", amount)
	}
	return amount, err
}
