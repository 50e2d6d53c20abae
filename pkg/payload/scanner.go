package payload

import (
	"bytes"
	"fmt"
	"slices"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A scanner walks through one body. It follows the pointers down as far as they
// lead, and only checks the rest.
type scanner struct {
	dec     jsontext.Decoder
	input   bytes.Buffer // what dec reads; over body, without a copy
	body    []byte
	cursors []cursor // one per pointer
	found   []Value  // one per pointer
	name    []byte   // scratch for a key with escapes
	list    list
	spans   []span // where found is, if it is asked for
}

// A span is a part of the body; the zero span is none.
type span struct{ from, to int }

// A list is what is known of the items, for [ScanItems]. Its cursors are those
// from first on, and lead through the element that is being read.
type list struct {
	first int // len(cursors) if there are no items
	depth int // of the elements
	most  int
	items []Item
}

// A cursor is how far a pointer has led. It is live at a depth if reached is
// that depth: the value being read there is one that its tokens lead to.
type cursor struct {
	tokens  []token
	reached int
	seen    []sighting // one per token
}

// A sighting says in which spellings a token was met as a key of its object.
// One is enough per token, since without duplicate keys there is one object.
type sighting struct {
	exact bool
	twin  string // the first spelling that differs in case, or ""
}

// scanners spares each Scan the decoder's stacks.
var scanners = sync.Pool{New: func() any { return new(scanner) }}

// options: raw bytes were checked before, so what AllowInvalidUTF8 still lets
// through is lone surrogate escapes. Duplicate names are refused by default.
var options = jsontext.AllowInvalidUTF8(true)

func (s *scanner) start(body []byte, at []Pointer) {
	s.body = body
	s.input = *bytes.NewBuffer(body)
	s.dec.Reset(&s.input, options)
	s.found = make([]Value, len(at))
	s.list = list{first: len(at)}
	s.cursors = slices.Grow(s.cursors[:0], len(at))[:len(at)]
	for i, p := range at {
		c := &s.cursors[i]
		c.tokens, c.reached = p.tokens, 0
		c.seen = slices.Grow(c.seen[:0], len(p.tokens))[:len(p.tokens)]
		clear(c.seen)
	}
}

// release returns s to the pool, without anything of the caller's.
func (s *scanner) release() {
	s.body, s.found, s.input, s.list, s.spans = nil, nil, bytes.Buffer{}, list{}, nil
	s.dec.Reset(&s.input)
	for i := range s.cursors {
		s.cursors[i].tokens = nil
	}
	scanners.Put(s)
}

// value reads the next value, to which depth tokens lead.
func (s *scanner) value(depth int) error {
	if !slices.ContainsFunc(s.cursors, func(c cursor) bool { return c.reached == depth }) {
		return s.skip()
	}
	kind := s.dec.PeekKind()
	var raw []byte
	var err error
	switch kind {
	case '{':
		raw, err = s.container(depth, s.member)
	case '[':
		raw, err = s.container(depth, s.element)
	default:
		raw, err = s.dec.ReadValue()
	}
	if err != nil {
		return err
	}
	for i, c := range s.cursors {
		if c.reached == depth && len(c.tokens) == depth {
			s.keep(i, Value{Raw: raw, Kind: kinds[kind]})
		}
	}
	return nil
}

// keep takes what the cursor i leads to.
func (s *scanner) keep(i int, v Value) {
	if i < s.list.first {
		s.found[i] = v
		if s.spans != nil {
			end := int(s.dec.InputOffset())
			s.spans[i] = span{end - len(v.Raw), end}
		}
		return
	}
	s.list.items[len(s.list.items)-1].Values[i-s.list.first] = v
}

// container reads an object or an array, with inside for each thing in it.
func (s *scanner) container(depth int, inside func(depth, i int) error) ([]byte, error) {
	if err := s.token(); err != nil {
		return nil, err
	}
	start := s.dec.InputOffset() - 1
	for i := 0; ; i++ {
		// If it is the wrong one of the two, token below reports it.
		if k := s.dec.PeekKind(); k == '}' || k == ']' {
			break
		}
		if err := inside(depth, i); err != nil {
			return nil, err
		}
		for j := range s.cursors {
			s.cursors[j].reached = min(s.cursors[j].reached, depth)
		}
	}
	if err := s.token(); err != nil {
		return nil, err
	}
	return s.body[start:s.dec.InputOffset()], nil
}

// member reads a key of an object, and its value.
func (s *scanner) member(depth, _ int) error {
	if s.dec.PeekKind() != '"' {
		return s.token() // fails
	}
	raw, err := s.dec.ReadValue()
	if err != nil {
		return err
	}
	name := []byte(raw[1 : len(raw)-1])
	if bytes.IndexByte(name, '\\') >= 0 {
		s.name, _ = jsontext.AppendUnquote(s.name[:0], raw) // fails for a lone surrogate only
		name = s.name
	}
	for i := range s.cursors {
		if c := &s.cursors[i]; c.reached == depth && depth < len(c.tokens) {
			if err := s.meet(c, name); err != nil && !s.blame(i, depth, err) {
				return err
			}
		}
	}
	return s.value(depth + 1)
}

// meet compares a key with the next token of c.
func (s *scanner) meet(c *cursor, name []byte) error {
	want, seen := c.tokens[c.reached].name, &c.seen[c.reached]
	switch {
	case c.tokens[c.reached].index == anyElement: // an object is no list
		return nil
	case string(name) == want:
		seen.exact = true
		c.reached++
	case seen.twin == "" && bytes.EqualFold(name, []byte(want)):
		seen.twin = string(name)
	}
	if !seen.exact || seen.twin == "" {
		return nil
	}
	return &webhook.InvalidError{
		Field:  field(s.dec.StackPointer().Parent().AppendToken(want)),
		Reason: fmt.Sprintf("keys %s and %s differ only in case", quote(want), quote(seen.twin)),
	}
}

// blame puts an error of the cursor i on the item in which it is, if it is.
func (s *scanner) blame(i, depth int, err error) bool {
	if i < s.list.first || depth < s.list.depth {
		return false
	}
	s.list.items[len(s.list.items)-1].Err = err
	return true
}

// element reads the element of an array at index i.
func (s *scanner) element(depth, i int) error {
	for j := range s.cursors {
		c := &s.cursors[j]
		if c.reached != depth || depth == len(c.tokens) {
			continue
		}
		switch c.tokens[depth].index {
		case i:
			c.reached++
		case anyElement:
			if j == s.list.first {
				if err := s.item(); err != nil {
					return err
				}
			}
			c.reached++
			clear(c.seen[depth+1:])
		}
	}
	return s.value(depth + 1)
}

// item begins the next one.
func (s *scanner) item() error {
	if len(s.list.items) == s.list.most {
		return &webhook.TooManyError{Limit: s.list.most}
	}
	s.list.items = append(s.list.items, Item{Values: make([]Value, len(s.cursors)-s.list.first)})
	return nil
}

// skip reads a value to its end, and only checks it.
func (s *scanner) skip() error {
	for outside := s.dec.StackDepth(); ; {
		if err := s.token(); err != nil {
			return err
		}
		if s.dec.StackDepth() == outside {
			return nil
		}
	}
}

// token reads the next token.
func (s *scanner) token() error {
	if _, err := s.dec.ReadToken(); err != nil {
		return err
	}
	if s.dec.StackDepth() > maxDepth {
		return &webhook.InvalidError{
			Field:  field(s.dec.StackPointer()),
			Reason: fmt.Sprintf("nested deeper than %d", maxDepth),
		}
	}
	return nil
}
