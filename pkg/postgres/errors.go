package postgres

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// SQLSTATE codes that are handled on purpose.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
)

// awayCodes begin the codes of errors that say that the server cannot work
// now: connection, resources, operator, system, and the read-only server that
// a failover leaves behind.
var awayCodes = []string{"08", "53", "57P0", "58", "25006"}

// unavailable marks err as [webhook.ErrUnavailable] if the database could not
// be reached or cannot work now. It is for statements of our own, whose errors
// can have no other cause than the database.
func unavailable(err error) error {
	if err == nil || errors.Is(err, webhook.ErrUnavailable) {
		return err
	}
	pgErr, answered := errors.AsType[*pgconn.PgError](err)
	if !answered && !isCanceled(err) || answered && slices.ContainsFunc(awayCodes, func(class string) bool {
		return strings.HasPrefix(pgErr.Code, class)
	}) {
		return fmt.Errorf("%w: %w", webhook.ErrUnavailable, err)
	}
	return err
}

// isCanceled reports whether err comes from a context that was called off. A
// deadline that passed is another matter: the database was too slow.
func isCanceled(err error) bool { return errors.Is(err, context.Canceled) }

// code is the SQLSTATE in err, or "".
func code(err error) string {
	if pgErr, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pgErr.Code
	}
	return ""
}

// again reports whether the transaction that ended with err may succeed if it
// is run once more as it was.
func again(err error) bool {
	c := code(err)
	return c == serializationFailure || c == deadlockDetected
}
