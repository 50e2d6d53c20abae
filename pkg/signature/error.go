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
	// UnknownScheme means that there are signatures, but only of versions that
	// are not ours or not good enough: v0, v9, SHA-1.
	UnknownScheme Reason = "unknown_scheme"
	// MalformedBody means that the body, which has to be read before the
	// signature can be checked, is neither JSON nor a form.
	MalformedBody Reason = "malformed_body"
	// MissingField means that the signature or the timestamp is not in the body.
	MissingField Reason = "missing_field"
	// MalformedField means that what is there in the body cannot be one.
	MalformedField Reason = "malformed_field"
	// MalformedTimestamp means that the timestamp is not in the scheme's unit:
	// not 1–12 decimal digits, if that is seconds.
	MalformedTimestamp Reason = "malformed_timestamp"
	// UnknownURL means that the URL is signed and we do not know it.
	UnknownURL Reason = "unknown_url"
	// NoMatch means that no secret made any of the signatures over this body.
	NoMatch Reason = "no_match"
	// BodyAltered means that a secret made the signature, but over a body that
	// reads like this one: a newline more or less, or the JSON written anew.
	BodyAltered Reason = "body_altered"
	// TooOld means that the signature is right, but from too long ago.
	TooOld Reason = "too_old"
	// InFuture means that the signature is right, but from a time too far ahead.
	InFuture Reason = "in_future"
)

// An Error says why a delivery was refused. It wraps [webhook.ErrUnverified].
// It quotes nothing of the delivery, so it can be logged as it is.
type Error struct {
	Reason Reason
	Where  string // the header that is to blame, or the place in the body; the signature's if no other is
}

func (e *Error) Error() string {
	return webhook.ErrUnverified.Error() + ": " + string(e.Reason) + " (" + e.Where + ")"
}

// Unwrap returns [webhook.ErrUnverified].
func (e *Error) Unwrap() error { return webhook.ErrUnverified }
