package payload

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// A Pointer is an RFC 6901 JSON Pointer, checked and split. Its zero value
// points to the whole document.
type Pointer struct {
	text   string
	tokens []token
}

// A token is one step of a pointer.
type token struct {
	name  string // the key, if the step leads into an object
	index int    // the index, if the step leads into an array; -1 if it cannot
}

// anyElement is the index of a token that leads into each element of an array.
const anyElement = -2

var unescape = strings.NewReplacer("~1", "/", "~0", "~")

// ParsePointer reads a pointer as it is written in settings: "" or "/a/b~1c/0".
func ParsePointer(s string) (Pointer, error) {
	if s == "" {
		return Pointer{}, nil
	}
	rest, ok := strings.CutPrefix(s, "/")
	if !ok {
		return Pointer{}, fmt.Errorf("JSON pointer %q does not start with a slash", s)
	}
	if !utf8.ValidString(s) {
		return Pointer{}, fmt.Errorf("JSON pointer %q is not valid UTF-8", s)
	}
	p := Pointer{text: s}
	for part := range strings.SplitSeq(rest, "/") {
		if n := strings.Count(part, "~"); n != strings.Count(part, "~0")+strings.Count(part, "~1") {
			return Pointer{}, fmt.Errorf("JSON pointer %q has a ~ without 0 or 1 after it", s)
		}
		p.tokens = append(p.tokens, token{unescape.Replace(part), index(part)})
	}
	return p, nil
}

// index reads an array index: digits without leading zeros.
func index(part string) int {
	i, err := strconv.Atoi(part)
	if err != nil || i < 0 || strconv.Itoa(i) != part {
		return -1
	}
	return i
}

// items leads from the list at p into each of its elements, and there to q.
func (p Pointer) items(q Pointer) Pointer {
	return Pointer{tokens: slices.Concat(p.tokens, []token{{index: anyElement}}, q.tokens)}
}

// then leads to p, and from there to q.
func (p Pointer) then(q Pointer) Pointer {
	return Pointer{text: p.text + q.text, tokens: slices.Concat(p.tokens, q.tokens)}
}

// String returns the pointer as it was given to [ParsePointer].
func (p Pointer) String() string { return p.text }

// Keys returns the steps of the pointer, without escapes: keys of objects, or
// indexes of arrays.
func (p Pointer) Keys() []string {
	keys := make([]string, len(p.tokens))
	for i, t := range p.tokens {
		keys[i] = t.name
	}
	return keys
}
