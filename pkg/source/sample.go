package source

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/hookonce/hookonce/pkg/payload"
)

// Sample returns a delivery that the source takes for one event of that type,
// yet to be signed: no more is in it than what the source looks at, and values.
// The id is where the source looks for one, as a number where it must be one.
// Two samples with different ids have different bodies.
func (s *Source) Sample(id, typ string, values map[string]any) (http.Header, []byte, error) {
	sample := sample{header: http.Header{}, form: url.Values{}, whole: map[string]any{}, item: map[string]any{}}
	if s.Items == nil {
		sample.whole = sample.item
	}
	sample.batch = s.Items != nil
	sample.asForm = s.kinds()[0] == Form && (s.Items == nil || s.Items.Form != "")
	sample.put(Locator{JSON: Pointer("/sent_as"), Form: "sent_as"}, id)
	for pointer, value := range values {
		putAt(sample.item, Pointer(pointer), value)
	}
	for _, l := range s.ID {
		sample.put(l, id)
	}
	if len(s.Type) > 0 {
		sample.put(s.Type[0], typ)
	}
	for _, l := range s.ID { // a part of the id may be the type
		for _, t := range s.Type {
			if l.JSON.String() == t.JSON.String() && l.Header+t.Header+l.Form+t.Form == "" {
				sample.put(l, typ)
			}
		}
	}
	body, err := sample.body(s)
	return sample.header, body, err
}

// Fit returns a body as the source takes it, and its Content-Type: a JSON
// document goes into a form, if the source takes nothing but forms.
func (s *Source) Fit(body []byte) (contentType string, fitted []byte) {
	const jsonType, formType = "application/json", "application/x-www-form-urlencoded"
	text := bytes.TrimLeft(body, " \t\r\n")
	isJSON := len(text) > 0 && (text[0] == '{' || text[0] == '[')
	name := s.PayloadField
	if s.Items != nil && s.Items.Form != "" {
		name = s.Items.Form
	}
	switch {
	case s.takes(JSON) && (isJSON || !s.takes(Form)):
		return jsonType, body
	case s.takes(Form) && isJSON && name != "":
		return formType, []byte(url.Values{name: {string(body)}}.Encode())
	case s.takes(Form):
		return formType, body
	case isJSON:
		return jsonType, body
	}
	return "application/octet-stream", body
}

// A sample is a delivery in the making.
type sample struct {
	header      http.Header
	asForm      bool
	batch       bool // in JSON, maybe in a field of the form
	form        url.Values
	whole, item map[string]any // the same, if a delivery is one event
}

func (m *sample) put(l Locator, text string) {
	var value any = text
	if l.Number {
		value = json.Number(digits(text))
	}
	switch {
	case l.Header != "":
		m.header.Set(l.Header, text)
	case l.Text != "" || l.Content || l.Delivery:
	case m.asForm && l.Form != "" && (!m.batch || l.JSON.String() == ""):
		m.form.Set(l.Form, text)
	case l.JSON.String() == "": // of another kind of body
		if len(l.Or) > 0 {
			m.put(l.Or[0], text)
		}
	case l.Envelope:
		putAt(m.whole, l.JSON, value)
	default:
		putAt(m.item, l.JSON, value)
	}
}

// digits is text, if it is a number, or one that is made of it.
func digits(text string) string {
	if n, err := strconv.ParseUint(text, 10, 63); err == nil {
		return strconv.FormatUint(n, 10)
	}
	sum := sha256.Sum256([]byte(text))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>11, 10) // what a float64 can hold
}

func (m *sample) body(s *Source) ([]byte, error) {
	var doc any = m.whole
	if s.Items != nil {
		doc = []any{m.item}
		if s.Items.JSON.String() != "" {
			putAt(m.whole, s.Items.JSON, doc)
			doc = m.whole
		}
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	if !m.asForm {
		m.header.Set("Content-Type", "application/json")
		return text, nil
	}
	m.header.Set("Content-Type", "application/x-www-form-urlencoded")
	if s.Items != nil {
		m.form = url.Values{s.Items.Form: {string(text)}}
	}
	return []byte(m.form.Encode()), nil
}

// putAt makes the objects on the way to a JSON Pointer.
func putAt(doc map[string]any, pointer payload.Pointer, value any) {
	path := pointer.Keys()
	last := len(path) - 1
	for _, key := range path[:last] {
		next, ok := doc[key].(map[string]any)
		if !ok {
			next = map[string]any{}
			doc[key] = next
		}
		doc = next
	}
	doc[path[last]] = value
}
