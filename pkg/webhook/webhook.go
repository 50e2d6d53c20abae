// Package webhook holds the words that the rest of the program shares: what an
// event is, which states it passes through, and which errors mean what.
//
// It imports nothing from this module and nothing outside the standard
// library, so every other package may import it.
package webhook

import (
	"crypto/sha256"
	"time"
)

// An Event is one happening that a provider told us of. The pair (Source, ID)
// is its identity: however often it is delivered, its effect happens once.
type Event struct {
	Source string // who sent it: the name in the route, and the queue
	ID     string // the provider's id of the event, unique within Source; 1–255 bytes
	Type   string // what happened, in the provider's words; 1–255 bytes

	// Delivery is random and new for each delivery that was accepted. Two tasks
	// with the same Delivery are copies that we made ourselves.
	Delivery string

	ContentType string
	Headers     map[string]string // the request headers that the source asks to keep
	TraceParent string            // W3C trace context of the delivery, or ""
	ReceivedAt  time.Time

	// Body is kept byte for byte. The signature covers these bytes, so
	// re-encoding them would make an event impossible to check again.
	Body   []byte
	SHA256 [sha256.Size]byte // of Body

	// KeyOnly says that Postgres holds the event, and that this is a task that
	// sends for it: of the rest it has Delivery, Type, ReceivedAt and SHA256.
	KeyOnly bool

	// Attempt numbers the run that a handler is called for, from 1; it only
	// rises, over revivals too. It is the fencing token. 0 outside a handler.
	Attempt int
}

// IdempotencyKey is the same text for every attempt and every delivery of the
// event. A handler that calls the outside world sends it along. It cannot be
// ambiguous, since a source's name holds no colon.
func (e Event) IdempotencyKey() string { return e.Source + ":" + e.ID }

// A Status is where an event stands. They are lower case everywhere: in the
// database, in answers and in metrics.
type Status string

// The states of a row of received_events. Queued is not a row's: it is what
// people are told of an event that only the queue holds as yet.
const (
	Queued     Status = "queued"
	Received   Status = "received"   // held in Postgres, not claimed
	Processing Status = "processing" // an attempt is running, or its worker died
	Completed  Status = "completed"  // the effect is committed
	Failed     Status = "failed"     // another attempt is due
	Dead       Status = "dead"       // given up, kept until a person decides
)

// An Outcome is what a delivery came to, as the provider reads it.
type Outcome string

// The outcomes of a delivery. All but Refused are a 2xx.
const (
	Accepted  Outcome = "accepted"
	Duplicate Outcome = "duplicate"
	Requeued  Outcome = "requeued" // it was dead and runs again
	Ignored   Outcome = "ignored"
	Refused   Outcome = "error"
)

// A Receipt says that an event is held outside this process, and how.
type Receipt struct {
	Outcome   Outcome // Accepted, Duplicate or Requeued
	Done      bool    // of a Duplicate: its effect has happened
	Layer     string  // of a Duplicate: what caught it, taskid or postgres
	OtherBody bool    // of a Duplicate: the first delivery had another body
}
