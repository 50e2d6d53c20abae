package postgres

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// SQLSTATE codes that are handled on purpose.
// See https://www.postgresql.org/docs/current/errcodes-appendix.html.
const (
	divisionByZero       = "22012"
	serializationFailure = "40001"
	deadlockDetected     = "40P01"
	lockNotAvailable     = "55P03"
	undefinedTable       = "42P01"
	undefinedColumn      = "42703"
)

// awayCodes begin the codes of errors that say that the server cannot work
// now: connection, resources, operator, system, and the read-only server that
// a failover leaves behind.
var awayCodes = []string{"08", "53", "57P0", "58", "25006"}

// unavailable marks err as [webhook.ErrUnavailable] if the database could not
// be reached or cannot work now. It is for statements of our own, so a table
// that is not there is one of ours, and says what to do.
func unavailable(err error) error {
	if c := code(err); c == undefinedTable || c == undefinedColumn {
		return &schemaError{err}
	}
	if err == nil || errors.Is(err, webhook.ErrUnavailable) || !isAway(err) {
		return err
	}
	return fmt.Errorf("%w: %w", webhook.ErrUnavailable, err)
}

// A schemaError is a statement of ours that met other tables than it is for.
type schemaError struct{ err error }

func (e *schemaError) Error() string {
	return "the database does not have the tables that this build needs: run hookonce migrate up"
}
func (e *schemaError) Unwrap() error { return e.err }

// isAway tells a database that is away from a statement that is wrong, which
// waiting does not mend. A deadline that passed counts: the database was too
// slow. A context that was called off does not.
func isAway(err error) bool {
	if pgErr, answered := errors.AsType[*pgconn.PgError](err); answered {
		return slices.ContainsFunc(awayCodes, func(class string) bool { return strings.HasPrefix(pgErr.Code, class) })
	}
	if errors.Is(err, context.Canceled) {
		return false
	}
	_, refused := errors.AsType[*pgconn.ConnectError](err)
	_, network := errors.AsType[net.Error](err)
	return refused || network || pgconn.Timeout(err) || pgconn.SafeToRetry(err) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed)
}

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
