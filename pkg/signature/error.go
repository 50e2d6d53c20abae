package signature

import "github.com/hookonce/hookonce/pkg/webhook"

// A Reason says in one word why a delivery was refused. There are few of them
// and they never change with the delivery, so one can label a metric.
type Reason string

// The reasons, in the order in which they are looked for.
const (
	// MissingHeader means that the signature's, timestamp's or id's header is not there.
	MissingHeader Reason = "missing_header"
	// RepeatedHeader means that such a header came twice: which one counts would be a guess.
	RepeatedHeader Reason = "repeated_header"
	// MalformedHeader means that such a header is empty or too long, has too many
	// entries, two timestamps or none, or no entry that could be a signature.
	MalformedHeader Reason = "malformed_header"
	// MalformedTimestamp means that the timestamp is not 1–12 decimal digits.
	MalformedTimestamp Reason = "malformed_timestamp"
	// NoMatch means that no secret made any of the signatures over this body.
	NoMatch Reason = "no_match"
	// TooOld means that the signature is right, but from too long ago.
	TooOld Reason = "too_old"
	// InFuture means that the signature is right, but from a time too far ahead.
	InFuture Reason = "in_future"
)

// An Error says why a delivery was refused. It wraps [webhook.ErrUnverified].
// It quotes nothing of the delivery, so it can be logged as it is.
type Error struct {
	Reason Reason
	Header string // the header that is to blame; the signature's if no other is
}

func (e *Error) Error() string {
	return webhook.ErrUnverified.Error() + ": " + string(e.Reason) + " (" + e.Header + ")"
}

// Unwrap returns [webhook.ErrUnverified].
func (e *Error) Unwrap() error { return webhook.ErrUnverified }
