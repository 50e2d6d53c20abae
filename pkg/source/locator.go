package source

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Locator says where a text is. Header, Form, Text, Content and Delivery come
// in this order; if there is none of them, it is in the JSON document.
type Locator struct {
	Header string          // a request header
	Form   string          // a field of a form
	Text   string          // this very text, where the provider says none
	JSON   payload.Pointer // into the item, of a source with Items

	// Content is "sha256:" and the hash of the event's bytes.
	Content bool
	// Delivery is a new text each time: two copies of a delivery are two events.
	// It is for providers that only say that there is something to fetch, in the
	// same words each time.
	Delivery bool

	// Envelope says that JSON starts at the whole delivery and not at the item.
	Envelope bool
	// Number takes a JSON number that is written as an integer too, by its digits.
	Number bool
	// Optional says that nothing, null or "" may be there. Of the parts of an id at
	// least one must be there; a missing part is an empty one.
	Optional bool
	// Or are places to look at, in turn, if nothing is there.
	Or []Locator
}

// pointers appends those of l and of what it may look at instead.
func (l Locator) pointers(at *paths) {
	if l.Envelope && at.split {
		at.whole = append(at.whole, l.JSON)
	} else {
		at.each = append(at.each, l.JSON)
	}
	for _, other := range l.Or {
		other.pointers(at)
	}
}

// paths are the pointers of all locators of a source, in the order in which
// they are asked for.
type paths struct {
	each, whole []payload.Pointer
	split       bool // the two differ
}

// name names the place for people: a header by its name, a key of the body's
// top level by the key, and any other by its JSON pointer.
func (l Locator) name() string {
	switch {
	case l.Header != "":
		return l.Header
	case l.Form != "":
		return l.Form
	}
	p := l.JSON.String()
	if key := strings.TrimPrefix(p, "/"); !strings.ContainsAny(key, "/~") {
		return key
	}
	return p
}

// invalid says what is wrong with what is at l.
func (l Locator) invalid(reason string) error {
	return &webhook.InvalidError{Field: l.name(), Reason: reason}
}

// maxText is the longest id or type, in bytes.
const maxText = 255

const tooLong = "is longer than 255 bytes"

// unusable says why s cannot be an id or a type, or "".
func unusable(s string) string {
	switch {
	case s == "":
		return "is empty"
	case strings.TrimSpace(s) == "":
		return "is blank"
	case len(s) > maxText:
		return tooLong
	case !utf8.ValidString(s):
		return "is not UTF-8"
	case strings.ContainsFunc(s, unicode.IsControl):
		return "has a control character"
	}
	return ""
}

// allZero reports whether s stands for "none", as the hash of a branch that
// was deleted does. A short number may be zero.
func allZero(s string) bool {
	return strings.Count(s, "0") >= 8 && strings.Trim(s, "0-") == ""
}
