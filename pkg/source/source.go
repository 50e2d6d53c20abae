// Package source holds what is known of each provider that posts to us: how it
// signs, where an event's id and type are, and what its events are allowed.
package source

import (
	"net/http"
	"regexp"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
)

// A Source is one provider, or one account with it. Its name is in the route,
// names the queue, and is one half of an event's identity.
type Source struct {
	Name     string
	Verifier *signature.Verifier // nil: anybody may post

	// Provider is what the provider of a preset calls itself, and Unproven that
	// its scheme was tried with nothing but our own signer; see PROVIDERS.md.
	Provider string
	Unproven bool

	// ID are the parts of an event's id. A single part is the id as it is; several
	// are joined by colons, with each % and : in them escaped.
	ID []Locator
	// Type are the parts of an event's type, joined by a dot; those after the
	// first may be missing. If the first is optional, a delivery without any of
	// them is of the type "unknown".
	Type []Locator
	// Items is where several events stand in one delivery, as a JSON array: each
	// element is an event of its own, in which the locators of ID and Type look.
	// An object there is one event. nil: a delivery is one event.
	Items *Locator
	// Content is how bodies are read, by their Content-Type; none: JSON.
	Content []Kind
	// PayloadField is the field of a form that holds a JSON document, for the
	// locators of JSON to look in.
	PayloadField string
	// MediaTypes are taken as the first kind of Content, beside those that belong
	// to the kinds; "" stands for a delivery without a Content-Type.
	MediaTypes []string
	// Gzip is what was signed of a delivery that is compressed: GzipPlain,
	// GzipCompressed, or "" if the source takes none. The event's body is plain.
	Gzip string
	// Integers must be in the body: the schema of the source default.
	Integers []Integer

	// Handshake is how the provider tries the address before it sends events.
	Handshake Handshake
	// Challengers sign what proves to a provider that we know its secret, one for
	// each secret of Verifier; see [ChallengeScheme].
	Challengers []*signature.Verifier
	// VerifyToken is what the provider of a handshake has to know.
	VerifyToken Token

	// Ignore are globs of types that are answered, and not stored.
	Ignore []string
	// Livemode is where the body says whether an event is real. Live, if not nil,
	// has those ignored where it says otherwise.
	Livemode Locator
	Live     *bool
	// IgnoreFields are fields in which two bodies of one event may differ: the
	// provider changes them between its attempts.
	IgnoreFields []payload.Pointer
	// AnswerBody is the whole body of every 2xx, as text, if the provider wants
	// a certain one.
	AnswerBody  string
	KeepHeaders []string // request headers that go with the event
	AckStatus   int      // 200, 202 or 204, for every delivery that is not refused
	MaxBody     int64    // bytes, compressed and plain
	MaxRetry    int      // attempts after the first
	Timeout     time.Duration
	Concurrency int           // attempts at once in one worker process
	Retention   time.Duration // how long the queue remembers a completed event
	KeepPayload time.Duration // how long the body and headers of a completed event stay
	KeepDetails time.Duration // likewise its failed attempts and other bodies; its key stays for ever
	Handlers    []Rule        // the first that matches is called; if none does, the event is recorded

	Edges // what is asked of a request besides its signature
}

// New returns a source with the default limits, which posts JSON with its id
// and type in headers or body yet to be said.
func New(name string) Source {
	return Source{
		Name:        name,
		AckStatus:   http.StatusOK,
		MaxBody:     1 << 20,
		MaxRetry:    24,
		Timeout:     15 * time.Second,
		Concurrency: 16,
		Retention:   10 * time.Minute,
		KeepPayload: 30 * 24 * time.Hour,
		KeepDetails: 90 * 24 * time.Hour,
	}
}

// DefaultName is the source of POST /webhooks.
const DefaultName = "default"

// Default returns the source that is there without a sources file: unsigned,
// with a schema of its own, its payments booked.
func Default() Source {
	s := New(DefaultName)
	s.ID = []Locator{{JSON: Pointer("/event_id")}}
	s.Type = []Locator{{JSON: Pointer("/event_type")}}
	s.Integers = []Integer{{At: Pointer("/amount"), Min: 0}, {At: Pointer("/timestamp"), Min: 1}}
	s.Handlers = []Rule{{Match: "payment.*", Handler: "payments", Amount: Pointer("/amount")}}
	return s
}

// A Rule sends the events whose type matches a glob to a built-in handler.
type Rule struct {
	Match   string
	Handler string
	Amount  payload.Pointer // of the handler payments
}

// An Integer is a number that must be in the body, as a JSON integer.
type Integer struct {
	At  payload.Pointer
	Min int64
}

// Pointer is for pointers that the program itself writes down; it panics if s
// is not one.
func Pointer(s string) payload.Pointer {
	p, err := payload.ParsePointer(s)
	if err != nil {
		panic(err)
	}
	return p
}

var validName = regexp.MustCompile(`^[a-z0-9_-]{1,64}$`)

// ValidName reports whether a source may be called name.
func ValidName(name string) bool { return validName.MatchString(name) }

// Match is Verify and says which secret it was, counted from 0; -1 if none was
// needed.
func (s *Source) Match(r signature.Request, now time.Time) (int, error) {
	if s.Verifier == nil {
		return -1, nil
	}
	return s.Verifier.Match(r, now)
}

// Verify reports, as [webhook.ErrUnverified], a delivery that did not come from
// the provider. A source without verification takes all.
func (s *Source) Verify(r signature.Request, now time.Time) error {
	if s.Verifier == nil {
		return nil
	}
	return s.Verifier.Verify(r, now)
}
