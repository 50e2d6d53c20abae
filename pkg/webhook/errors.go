package webhook

import (
	"errors"
	"fmt"
	"time"
)

// Errors that callers branch on. Packages wrap them; the HTTP edge and the
// queue translate them, each in one place.
var (
	// ErrUnverified means that the sender could not be authenticated.
	ErrUnverified = errors.New("delivery not verified")

	// ErrNotHeld means that no store took the event: the sender must try again.
	ErrNotHeld = errors.New("event not held")

	// ErrNotFound means that nothing is known of the event.
	ErrNotFound = errors.New("event not found")

	// ErrFenced means that an attempt is no longer the event's: it outlived its
	// lease and another took over. Nothing that it wrote was kept.
	ErrFenced = errors.New("attempt fenced: the event is no longer this attempt's")

	// ErrUnavailable means that a store could not be reached or was cut off
	// before it answered. The event is not to blame, so it costs no retry.
	ErrUnavailable = errors.New("store unavailable")

	// ErrShutdown is the cause of a context that ended because the worker stops.
	ErrShutdown = errors.New("worker is shutting down")
)

// An InvalidError says which part of a delivery cannot be used, in words that
// the sender may see.
type InvalidError struct {
	Field  string // a header's name or a JSON pointer; "" for the body as a whole
	Reason string
}

func (e *InvalidError) Error() string {
	if e.Field == "" {
		return e.Reason
	}
	return e.Field + ": " + e.Reason
}

// A TooManyError says that a delivery has more events than are taken at once.
type TooManyError struct{ Limit int }

func (e *TooManyError) Error() string { return fmt.Sprintf("more than %d events", e.Limit) }

// A BusyError says that somebody else holds the event just now.
type BusyError struct {
	After time.Duration // when it may be free
}

func (e *BusyError) Error() string {
	return fmt.Sprintf("event is held by another attempt for %s", e.After)
}

type permanentError struct{ err error }

func (e *permanentError) Error() string { return e.err.Error() }
func (e *permanentError) Unwrap() error { return e.err }

// Permanent marks err as one that no retry will cure: a handler that returns it
// sends the event to the dead letters at once. Permanent(nil) is nil.
func Permanent(err error) error {
	if err == nil {
		return nil
	}
	return &permanentError{err}
}

// IsPermanent reports whether err, or an error that it wraps, came from [Permanent].
func IsPermanent(err error) bool {
	_, ok := errors.AsType[*permanentError](err)
	return ok
}

// A RetryError tells the queue to bring the event back.
type RetryError struct {
	After  time.Duration
	Failed bool // the attempt failed; otherwise it merely could not run, which costs nothing
	Err    error
}

func (e *RetryError) Error() string { return e.Err.Error() }
func (e *RetryError) Unwrap() error { return e.Err }

// A DeadError tells the queue that the event is dead in Postgres, and since
// which attempt.
type DeadError struct {
	Attempt int
	// Leftover means that the death is an old one: this task was not made by a
	// new delivery. Only a person's Run makes such a task revive the event.
	Leftover bool
	Reason   string
}

func (e *DeadError) Error() string {
	return fmt.Sprintf("dead at attempt %d: %s", e.Attempt, e.Reason)
}
