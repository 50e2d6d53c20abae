// Package source holds what is known of each provider that posts to us: how it
// signs, where an event's id and type are, and what its events are allowed.
package source

import (
	"net/http"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Source is one provider, or one account with it. Its name is in the route,
// names the queue, and is one half of an event's identity.
type Source struct {
	Name     string
	Verifier *signature.Verifier // nil: anybody may post

	ID   Locator
	Type []Locator // joined by a dot; those after the first may be missing

	// Integers must be in the body: the schema of the source default.
	Integers []Integer

	KeepHeaders []string // request headers that go with the event
	AckStatus   int      // 200, 202 or 204, for every delivery that is not refused
	MaxBody     int64    // bytes
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
	s.ID = Locator{JSON: Pointer("/event_id")}
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

// A Locator says where a text is: in a header, or in the JSON body.
type Locator struct {
	Header string
	JSON   payload.Pointer // if Header is ""
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

// Verify reports, as [webhook.ErrUnverified], a delivery that did not come from
// the provider. A source without verification takes all.
func (s *Source) Verify(r signature.Request, now time.Time) error {
	if s.Verifier == nil {
		return nil
	}
	return s.Verifier.Verify(r, now)
}

// Read returns the event's id and type, or a [webhook.InvalidError] if the
// delivery is not one JSON object with a usable id and type.
func (s *Source) Read(h http.Header, body []byte) (id, typ string, err error) {
	at := make([]payload.Pointer, 1, 2+len(s.Type)+len(s.Integers)) // the first is the whole document
	at = append(at, s.ID.JSON)
	for _, l := range s.Type {
		at = append(at, l.JSON)
	}
	for _, n := range s.Integers {
		at = append(at, n.At)
	}
	found, err := payload.Scan(body, at...)
	if err != nil {
		return "", "", err
	}
	if found[0].Kind != payload.Object {
		return "", "", &webhook.InvalidError{Reason: "is not a JSON object"}
	}
	found = found[1:]
	if id, err = s.ID.text(h, found[0]); err != nil {
		return "", "", err
	}
	if typ, err = s.readType(h, found[1:1+len(s.Type)]); err != nil {
		return id, "", err
	}
	return id, typ, s.checkIntegers(found[1+len(s.Type):])
}

func (s *Source) readType(h http.Header, found []payload.Value) (string, error) {
	var parts []string
	for i, l := range s.Type {
		if i > 0 && !l.there(h, found[i]) {
			continue
		}
		part, err := l.text(h, found[i])
		if err != nil {
			return "", err
		}
		parts = append(parts, part)
	}
	typ := strings.Join(parts, ".")
	if len(typ) > maxText {
		return "", &webhook.InvalidError{Field: s.Type[0].field(), Reason: "is longer than 255 bytes"}
	}
	return typ, nil
}

func (s *Source) checkIntegers(found []payload.Value) error {
	for i, want := range s.Integers {
		n, err := found[i].Integer()
		switch {
		case err != nil:
			return &webhook.InvalidError{Field: Locator{JSON: want.At}.field(), Reason: err.Error()}
		case n < want.Min && want.Min > 0:
			return &webhook.InvalidError{Field: Locator{JSON: want.At}.field(), Reason: "is not positive"}
		case n < want.Min:
			return &webhook.InvalidError{Field: Locator{JSON: want.At}.field(), Reason: "is negative"}
		}
	}
	return nil
}

// maxText is the longest id or type, in bytes.
const maxText = 255

// text is the usable text at l. It is never trimmed or cut: two ids that differ
// are two events.
func (l Locator) text(h http.Header, found payload.Value) (string, error) {
	s, reason := "", ""
	if l.Header == "" {
		text, err := found.Text()
		if err != nil {
			reason = err.Error()
		}
		s = text
	} else if values := h.Values(l.Header); len(values) == 1 {
		s = values[0]
	} else if len(values) == 0 {
		reason = "is missing"
	} else {
		reason = "is there more than once"
	}
	if reason == "" {
		reason = unusable(s)
	}
	if reason != "" {
		return "", &webhook.InvalidError{Field: l.field(), Reason: reason}
	}
	return s, nil
}

// there reports whether anything at all stands at l.
func (l Locator) there(h http.Header, found payload.Value) bool {
	if l.Header != "" {
		return len(h.Values(l.Header)) > 0
	}
	return found.Found()
}

// unusable says why s cannot be an id or a type, or "".
func unusable(s string) string {
	switch {
	case s == "":
		return "is empty"
	case strings.TrimSpace(s) == "":
		return "is blank"
	case len(s) > maxText:
		return "is longer than 255 bytes"
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character"
	}
	return ""
}

// field names the place for people: a header by its name, a key of the body's
// top level by the key, and any other by its JSON pointer.
func (l Locator) field() string {
	if l.Header != "" {
		return l.Header
	}
	p := l.JSON.String()
	if key := strings.TrimPrefix(p, "/"); !strings.ContainsAny(key, "/~") {
		return key
	}
	return p
}
