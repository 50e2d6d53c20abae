package source

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// An Item is one event of a delivery.
type Item struct {
	ID, Type string
	Body     []byte // exactly its part of the delivery's bytes, or of the form field that has it

	// Ignored says that the source's own filter leaves the event out.
	Ignored bool

	// Err is a [*webhook.InvalidError] if the item has no usable id or type. It
	// says nothing of the other items.
	Err error
}

// MaxItems is how many events one delivery may have.
const MaxItems = 10_000

// Read returns the events of a delivery. Those of a batch that cannot be used
// have an Err, and the others are good; there may be none at all. Of a source
// without Items the Err of the one event is the error too.
//
// An error is a [*webhook.InvalidError] or, of more than [MaxItems] events, a
// [*webhook.TooManyError]. A Content-Type that [Source.Kind] refuses is taken
// for the first kind of the source.
func (s *Source) Read(h http.Header, body []byte) ([]Item, error) {
	v := view{header: h}
	kind, err := s.Kind(h)
	if err != nil {
		kind = s.kinds()[0]
	}
	doc := body
	switch kind {
	case JSON:
	case Opaque:
		doc = nil
	case Form:
		v.form = string(body)
		if doc, err = s.document(v.form); err != nil {
			return nil, err
		}
	}
	if s.Items != nil && kind != Opaque {
		return s.readItems(v, doc, body)
	}
	return s.readOne(v, doc, kind == JSON, body)
}

// document returns the JSON in a field of a form, or nil if there is none.
func (s *Source) document(form string) ([]byte, error) {
	name := s.PayloadField
	if s.Items != nil && s.Items.Form != "" {
		name = s.Items.Form
	}
	if name == "" {
		return nil, nil
	}
	text, err := field(form, name)
	if errors.Is(err, errMissing) && s.Items == nil {
		return nil, nil
	}
	if err != nil {
		return nil, &webhook.InvalidError{Field: name, Reason: err.Error()}
	}
	return []byte(text), nil
}

// readOne reads a delivery that is one event. doc is the JSON in it; it must be
// an object if there is one, or if there must be.
func (s *Source) readOne(v view, doc []byte, must bool, body []byte) ([]Item, error) {
	at := paths{each: make([]payload.Pointer, 1, 3+len(s.ID)+len(s.Type)+len(s.Integers))} // the first is the whole document
	s.paths(&at)
	if doc != nil || must {
		found, err := payload.Scan(doc, at.each...)
		if err != nil {
			return nil, err
		}
		if found[0].Kind != payload.Object {
			return nil, &webhook.InvalidError{Reason: notObject}
		}
		v.each = found[1:]
	} else {
		v.each = make([]payload.Value, len(at.each)-1)
	}
	item := Item{Body: body}
	s.readItem(&v, &item)
	return []Item{item}, item.Err
}

const notObject = "is not a JSON object"

// readItems reads a delivery of several events.
func (s *Source) readItems(v view, doc, body []byte) ([]Item, error) {
	at := paths{each: make([]payload.Pointer, 1), split: true}
	s.paths(&at)
	found, err := payload.ScanItems(doc, payload.Query{List: s.Items.JSON, Each: at.each, Whole: at.whole, Most: MaxItems})
	if err != nil {
		return nil, err
	}
	if found.List.Kind == "" && s.Items.Optional {
		one := *s
		one.Items = nil
		return one.readOne(v, doc, true, body)
	}
	if k := found.List.Kind; k != payload.Array && k != payload.Object {
		return nil, s.Items.invalid(found.List.Want("an array").Error())
	}
	items := make([]Item, len(found.Each))
	for i, row := range found.Each {
		whole := row.Values[0]
		items[i].Body = whole.Raw
		switch {
		case row.Err != nil:
			items[i].Err = row.Err
		case whole.Kind != payload.Object:
			items[i].Err = &webhook.InvalidError{Reason: notObject}
		default:
			one := view{header: v.header, form: v.form, each: row.Values[1:], whole: found.Whole, split: true}
			s.readItem(&one, &items[i])
		}
	}
	return items, nil
}

// paths collects the pointers of all locators, in the order of readItem.
func (s *Source) paths(at *paths) {
	for i := range s.ID {
		s.ID[i].pointers(at)
	}
	for i := range s.Type {
		s.Type[i].pointers(at)
	}
	for _, n := range s.Integers {
		at.each = append(at.each, n.At)
	}
	if s.Live != nil {
		s.Livemode.pointers(at)
	}
}

// readItem reads one event. The order in which it asks is that of paths.
func (s *Source) readItem(v *view, item *Item) {
	v.body = item.Body
	if item.ID, item.Err = s.readID(v); item.Err != nil {
		return
	}
	if item.Type, item.Err = s.readType(v); item.Err != nil {
		return
	}
	if item.Err = s.checkIntegers(v); item.Err != nil {
		return
	}
	item.Ignored = s.ignores(item.Type) || s.Live != nil && s.otherMode(v)
}

var escape = strings.NewReplacer("%", "%25", ":", "%3A")

func (s *Source) readID(v *view) (string, error) {
	if len(s.ID) == 1 {
		id, _, err := v.part(&s.ID[0])
		return id, err
	}
	parts, some := make([]string, len(s.ID)), false
	for i := range s.ID {
		part, there, err := v.part(&s.ID[i])
		if err != nil && (there || !s.ID[i].Optional) {
			return "", err
		}
		some = some || there
		parts[i] = escape.Replace(part)
	}
	if !some {
		return "", s.ID[0].invalid("is missing")
	}
	id := strings.Join(parts, ":")
	if len(id) > maxText {
		return "", s.ID[0].invalid(tooLong)
	}
	return id, nil
}

func contentID(body []byte) string {
	sum := sha256.Sum256(body)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// unknownType is the type of what names none, where the source allows that.
const unknownType = "unknown"

func (s *Source) readType(v *view) (string, error) {
	var buf [4]string
	parts := buf[:0]
	for i := range s.Type {
		part, there, err := v.text(&s.Type[i])
		switch {
		case !there && (i > 0 || s.Type[i].Optional):
			continue
		case err != nil:
			return "", err
		}
		parts = append(parts, part)
	}
	typ := strings.Join(parts, ".")
	switch {
	case len(parts) == 0:
		return unknownType, nil
	case len(typ) > maxText:
		return "", s.Type[0].invalid(tooLong)
	}
	return typ, nil
}

func (s *Source) checkIntegers(v *view) error {
	for _, want := range s.Integers {
		n, err := v.next(false).Integer()
		at := Locator{JSON: want.At}
		switch {
		case err != nil:
			return at.invalid(err.Error())
		case n < want.Min && want.Min > 0:
			return at.invalid("is not positive")
		case n < want.Min:
			return at.invalid("is negative")
		}
	}
	return nil
}
