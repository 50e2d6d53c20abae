// Package handler is where Hookonce meets the code that acts on events: the
// contract of a handler, and which events go to which.
package handler

import (
	"context"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Handler makes an event's effect happen.
//
// What it writes through tx is committed together with the event's completion,
// or not at all; so that part happens exactly once. tx begins with its first
// statement, and the worker alone ends it: to undo a part, use a savepoint
// (tx.Begin). A deferred tx.Rollback fails the attempt, and a COMMIT sent as a
// statement parts the effect from the completion. The session is used again by
// others, so a handler leaves no SET and no session lock behind. What a handler
// does elsewhere may happen more than once, so it sends ev.IdempotencyKey along.
//
// nil completes the event. An error fails the attempt, and the event comes back
// after a while that grows; [webhook.Permanent] sends it to the dead letters at
// once. A panic is an error too. ctx ends at the attempt's deadline, after
// which nothing is kept, and when the worker stops. A transaction that met a
// deadlock is run again, so Handle may be called more than once in an attempt.
type Handler interface {
	Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error
}

// Func lets a function be a Handler.
type Func func(ctx context.Context, tx pgx.Tx, ev webhook.Event) error

// Handle calls f.
func (f Func) Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error { return f(ctx, tx, ev) }

// A Route sends the events whose type matches to a handler.
type Route struct {
	Match   string // a glob over the whole type: * stands for any run of bytes
	Handler Handler
}

// A Router sends each event to the first route of its source that matches.
type Router map[string][]Route

// Handle calls the handler that is due. An event that none matches is complete
// as it is: it is recorded.
func (r Router) Handle(ctx context.Context, tx pgx.Tx, ev webhook.Event) error {
	for _, route := range r[ev.Source] {
		if webhook.Matches(route.Match, ev.Type) {
			return route.Handler.Handle(ctx, tx, ev)
		}
	}
	return nil
}
