package signature

import (
	"bytes"
	"encoding/json"
	"errors"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
)

// maxItems is how many items of one delivery may have a signature each.
const maxItems = 10_000

// body is what an [Error] calls the body as a whole.
const body = "body"

// matchItems checks the signature of each item. It returns the secret of the first.
func (v *Verifier) matchItems(m *scratch, r Request, now time.Time) (int, error) {
	found, err := payload.Scan(r.Body, v.items)
	if err != nil {
		return -1, &Error{MalformedBody, body}
	}
	var items []json.RawMessage
	switch {
	case !found[0].Found():
		return -1, &Error{MissingField, v.scheme.Items}
	case found[0].Kind != payload.Array || json.Unmarshal(found[0].Raw, &items) != nil || len(items) > maxItems:
		return -1, &Error{MalformedField, v.scheme.Items}
	case len(items) == 0:
		return -1, &Error{MissingField, v.scheme.Items}
	}
	secret := -1
	for _, item := range items {
		i, err := v.matchOne(m, r, item, now)
		if err != nil {
			return -1, err
		}
		if secret < 0 {
			secret = i
		}
	}
	return secret, nil
}

// places are what is to be read of the body.
type places struct {
	pointers  []payload.Pointer // those of the template, and then:
	signature int               // which of them is the signature, or -1
	timestamp int               // which of them is the timestamp, or -1
}

// places lists them. The pointers were checked.
func (s Scheme) places(signed *template) places {
	in := places{slices.Clone(signed.pointers), -1, -1}
	add := func(pointer string) int {
		p, _ := payload.ParsePointer(pointer)
		in.pointers = append(in.pointers, p)
		return len(in.pointers) - 1
	}
	if s.SignatureAt != "" {
		in.signature = add(s.SignatureAt)
	}
	if s.TimestampAt != "" {
		in.timestamp = add(s.TimestampAt)
	}
	return in
}

// readsLate reports whether the timestamp is of interest only once the body
// that it is in has proved to be the provider's.
func (v *Verifier) readsLate() bool {
	in := &v.inside
	return in.timestamp >= 0 && in.signature < 0 && len(v.signed.pointers) == 0 && !v.signed.uses(timestampPart)
}

func (v *Verifier) readLate(m *scratch, r Request) (int64, error) {
	if err := v.inside.open(m, r.Header, r.Body); err != nil {
		return 0, err
	}
	return v.readTimestamp(m, "")
}

// open reads the values in the body.
func (in *places) open(m *scratch, h http.Header, doc []byte) error {
	if isForm(h, doc) {
		return in.openForm(m, doc)
	}
	found, err := payload.Scan(doc, in.pointers...)
	if err != nil {
		return &Error{MalformedBody, body}
	}
	for i, value := range found {
		text, ok := textOf(value, i == in.signature)
		switch {
		case !ok:
			return &Error{MalformedField, in.pointers[i].String()}
		case text == "" && (i == in.signature || i == in.timestamp):
			return &Error{MissingField, in.pointers[i].String()}
		}
		m.values = append(m.values, text)
	}
	return nil
}

// textOf returns a value as providers write it into the text that they sign.
func textOf(v payload.Value, onlyString bool) (string, bool) {
	switch {
	case !v.Found() || v.Kind == payload.Null:
		return "", true
	case v.Kind == payload.String:
		text, err := v.Text()
		return text, err == nil
	case v.Kind == payload.Object || v.Kind == payload.Array:
		return "", false
	}
	return string(v.Raw), !onlyString
}

func (v *Verifier) readSignatureAt(m *scratch) error {
	value := m.values[v.inside.signature]
	if len(value) > maxValue {
		return &Error{MalformedField, v.scheme.SignatureAt}
	}
	_, err := v.readEntries(m, v.scheme.SignatureAt, value)
	if e, ok := errors.AsType[*Error](err); ok && e.Reason == MalformedHeader {
		e.Reason = MalformedField
	}
	return err
}

// isForm reports whether doc is a form: by its type or, without one, by how it begins.
func isForm(h http.Header, doc []byte) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && media != "" {
		return media == "application/x-www-form-urlencoded"
	}
	doc = bytes.TrimLeft(doc, " \t\r\n")
	return len(doc) > 0 && doc[0] != '{' && doc[0] != '['
}

// A field of a form.
type field struct{ name, value string }

// parseForm splits a form. It is strict about escapes, since a field that is
// left out would not be signed.
func parseForm(doc []byte) ([]field, bool) {
	var fields []field
	for part := range strings.SplitSeq(string(doc), "&") {
		if part == "" {
			continue
		}
		name, value, _ := strings.Cut(part, "=")
		name, err := url.QueryUnescape(name)
		if err != nil {
			return nil, false
		}
		if value, err = url.QueryUnescape(value); err != nil {
			return nil, false
		}
		fields = append(fields, field{name, value})
	}
	return fields, true
}

// openForm takes the values out of fields that are named as the pointers end.
func (in *places) openForm(m *scratch, doc []byte) error {
	fields, ok := parseForm(doc)
	if !ok {
		return &Error{MalformedBody, body}
	}
	for i, p := range in.pointers {
		name := fieldName(p.String())
		var values []string
		for _, f := range fields {
			if f.name == name {
				values = append(values, f.value)
			}
		}
		value := strings.Join(values, "")
		switch {
		case len(values) > 1:
			return &Error{MalformedField, p.String()}
		case value == "" && (i == in.signature || i == in.timestamp):
			return &Error{MissingField, p.String()}
		}
		m.values = append(m.values, value)
	}
	return nil
}

// readForm puts the fields of the body into m as they are signed: sorted, and a
// value that is there twice once, as Twilio's libraries do.
func (v *Verifier) readForm(m *scratch, r Request) error {
	if !v.signed.uses(formPart) {
		return nil
	}
	if name := v.scheme.URLBodyHash; name != "" {
		if hashed, other := urlHash(r, name); hashed {
			m.otherBody = other
			return nil
		}
	}
	fields, ok := parseForm(r.Body)
	if !ok {
		return &Error{MalformedBody, body}
	}
	slices.SortFunc(fields, func(a, b field) int {
		if c := strings.Compare(a.name, b.name); c != 0 {
			return c
		}
		return strings.Compare(a.value, b.value)
	})
	for _, f := range slices.Compact(fields) {
		m.form = append(append(m.form, f.name...), f.value...)
	}
	return nil
}
