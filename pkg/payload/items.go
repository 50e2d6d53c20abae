package payload

import (
	"bytes"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Query says where the items of a document are, and what is wanted of it.
type Query struct {
	List  Pointer   // to the array of the items, or to a single one
	Each  []Pointer // from an item; at least one
	Whole []Pointer // from the document
	Most  int       // how many items there may be
}

// Items are the answer to a [Query].
type Items struct {
	List  Value   // what stands where the items should
	Whole []Value // at Query.Whole
	Each  []Item  // the elements of the list if it is an array; otherwise what stands there, if anything
}

// An Item is one element of a list.
type Item struct {
	Values []Value // at Query.Each
	Err    error   // a [*webhook.InvalidError] if it has a key in two spellings
}

// ScanItems is [Scan] for a document with many items, in one pass: it finds the
// pointers of Each in every item. More items than Most are a [*webhook.TooManyError].
func ScanItems(body []byte, q Query) (Items, error) {
	if err := checkText(body); err != nil {
		return Items{}, err
	}
	if first := bytes.TrimLeft(body, " \t\r\n"); len(q.List.tokens) == 0 && !bytes.HasPrefix(first, []byte("[")) {
		return scanSingle(body, q)
	}
	at := append(append(make([]Pointer, 0, 1+len(q.Whole)+len(q.Each)), q.List), q.Whole...)
	for _, p := range q.Each {
		at = append(at, q.List.items(p))
	}
	s := scanners.Get().(*scanner)
	defer s.release()
	s.start(body, at)
	s.list = list{first: 1 + len(q.Whole), depth: len(q.List.tokens) + 1, most: q.Most}
	if err := s.document(); err != nil {
		return Items{}, err
	}
	switch found := s.found; found[0].Kind {
	case Array, "":
		return Items{List: found[0], Whole: found[1 : 1+len(q.Whole)], Each: s.list.items}, nil
	default:
		return scanSingle(body, q)
	}
}

// scanSingle is for a list that is none: the one thing there is the item.
func scanSingle(body []byte, q Query) (Items, error) {
	at := append(append(make([]Pointer, 0, 1+len(q.Whole)+len(q.Each)), q.List), q.Whole...)
	for _, p := range q.Each {
		at = append(at, q.List.then(p))
	}
	found, err := Scan(body, at...)
	if err != nil {
		return Items{}, err
	}
	items := Items{List: found[0], Whole: found[1 : 1+len(q.Whole)]}
	if found[0].Found() {
		items.Each = []Item{{Values: found[1+len(q.Whole):]}}
	}
	return items, nil
}

// document reads the whole body.
func (s *scanner) document() error {
	if err := s.value(0); err != nil {
		return refusal(err)
	}
	if rest := s.body[s.dec.InputOffset():]; len(bytes.TrimLeft(rest, " \t\r\n")) > 0 {
		return &webhook.InvalidError{Reason: "must be one JSON value and nothing after it"}
	}
	return nil
}
