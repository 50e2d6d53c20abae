package handler_test

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// An invoice's row and the event's completion are committed together, so there
// is one row for each event, however often the event is delivered or retried.
func ExampleFunc() {
	var invoices handler.Handler = handler.Func(func(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
		var invoice struct {
			Number string `json:"number"`
			Total  int64  `json:"total"`
		}
		if err := json.Unmarshal(ev.Body, &invoice); err != nil {
			return webhook.Permanent(err) // it will not get better
		}
		_, err := tx.Exec(ctx, `INSERT INTO invoices (number, total, event) VALUES ($1, $2, $3)`,
			invoice.Number, invoice.Total, ev.IdempotencyKey())
		return err // comes back later
	})

	err := invoices.Handle(context.Background(), nil, webhook.Event{Source: "shop", ID: "e-1", Body: []byte(`{"total": "a lot"}`)})
	fmt.Println("dead at once:", webhook.IsPermanent(err))
	// Output: dead at once: true
}
