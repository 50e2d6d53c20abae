package signature

import (
	"encoding/base64"
	"net/http"
	"strings"
)

// What is looked at of a header, at most. Real ones have two or three entries
// and some 200 bytes; this bounds what an unauthenticated sender can make us do.
const (
	maxValue   = 4 << 10
	maxEntries = 16
)

// strict refuses encodings that differ from a valid one in their unused bits.
var strict = base64.StdEncoding.Strict()

// read takes the signatures and all that is signed out of the request, puts
// them into m, and returns the timestamp as a number. Values of the body are
// looked for in doc.
func (v *Verifier) read(m *scratch, r Request, doc []byte) (sentAt int64, err error) {
	m.reset()
	if len(v.inside.pointers) > 0 && !v.readsLate() {
		if err := v.inside.open(m, r.Header, doc); err != nil {
			return 0, err
		}
	}
	timestamp, err := v.readSignatures(m, r.Header)
	if err != nil {
		return 0, err
	}
	if name := v.scheme.TimestampHeader; name != "" {
		if timestamp, err = one(r.Header, name); err != nil {
			return 0, err
		}
	}
	if v.signed.uses(timestampPart) {
		if sentAt, err = v.readTimestamp(m, timestamp); err != nil {
			return 0, err
		}
	}
	if name := v.scheme.IDHeader; name != "" {
		id, err := one(r.Header, name)
		if err != nil {
			return 0, err
		}
		m.id = append(m.id, id...)
	}
	return sentAt, v.readMore(m, r)
}

// readMore reads what only some schemes sign.
func (v *Verifier) readMore(m *scratch, r Request) error {
	for _, s := range v.signed.segments {
		if s.part == headerPart {
			if _, err := one(r.Header, s.header); err != nil {
				return err
			}
			m.headers = r.Header
		}
	}
	if err := v.readURL(m, r); err != nil {
		return err
	}
	return v.readForm(m, r)
}

func (v *Verifier) readTimestamp(m *scratch, text string) (int64, error) {
	if v.inside.timestamp >= 0 {
		text = m.values[v.inside.timestamp]
	}
	sentAt, ok := v.scheme.parseTime(text)
	if !ok {
		return 0, &Error{MalformedTimestamp, v.timestampPlace()}
	}
	m.timestamp = append(m.timestamp, text...)
	return sentAt, nil
}

// one returns the value of a header that must be there once.
func one(h http.Header, name string) (string, error) {
	values := h[name]
	switch {
	case len(values) == 0:
		return "", &Error{MissingHeader, name}
	case len(values) > 1:
		return "", &Error{RepeatedHeader, name}
	case values[0] == "" || len(values[0]) > maxValue:
		return "", &Error{MalformedHeader, name}
	}
	return values[0], nil
}

// readSignatures takes the signatures from where they are.
func (v *Verifier) readSignatures(m *scratch, h http.Header) (timestamp string, err error) {
	s := &v.scheme
	if v.inside.signature >= 0 {
		return "", v.readSignatureAt(m)
	}
	if len(s.MoreHeaders) > 0 {
		return "", v.readHeaders(m, h)
	}
	value, err := one(h, s.Header)
	if err != nil {
		if s.OldHeader != "" && len(h[s.Header]) == 0 && len(h[s.OldHeader]) > 0 {
			err = &Error{UnknownScheme, s.OldHeader}
		}
		return "", err
	}
	return v.readEntries(m, s.Header, value)
}

// readHeaders takes the signatures from all headers that may have one. One that
// can be decoded is enough.
func (v *Verifier) readHeaders(m *scratch, h http.Header) error {
	var first error
	decoded := false
	for i := range len(v.scheme.MoreHeaders) + 1 {
		name := v.scheme.Header
		if i > 0 {
			name = v.scheme.MoreHeaders[i-1]
		}
		if len(h[name]) == 0 {
			continue
		}
		value, err := one(h, name)
		if err == nil {
			_, err = v.readEntries(m, name, value)
		}
		decoded = decoded || err == nil
		if err != nil && first == nil {
			first = err
		}
	}
	if first == nil && !decoded {
		first = &Error{MissingHeader, v.scheme.Header}
	}
	if decoded {
		return nil
	}
	return first
}

// readEntries takes a header apart. One entry that can be decoded is enough;
// the others may be of a version that is not ours, or damaged.
func (v *Verifier) readEntries(m *scratch, name, value string) (timestamp string, err error) {
	var (
		s          = &v.scheme
		timestamps int
		decoded    bool
		ours       bool // there is an entry that is not of another version
		others     bool
	)
	for n, more := 0, true; more; n++ {
		if n == maxEntries {
			return "", &Error{MalformedHeader, name}
		}
		var entry string
		entry, value, more = s.cut(value)
		if t, ok := s.timestampEntry(entry); ok {
			timestamp = t
			timestamps++
			continue
		}
		encoded, public, ok := m.signatureEntry(s, entry)
		if ok && m.decode(s.Encoding, encoded, public) {
			decoded = true
		}
		other := s.otherVersion(entry)
		others = others || other
		ours = ours || ok && !other
	}
	switch {
	case !decoded && others && !ours:
		return "", &Error{UnknownScheme, name}
	case !decoded || s.TimestampField != "" && timestamps != 1:
		return "", &Error{MalformedHeader, name}
	}
	return timestamp, nil
}

func (s *Scheme) cut(value string) (entry, rest string, more bool) {
	if s.Separator == "" {
		return value, "", false
	}
	return strings.Cut(value, s.Separator)
}

func (s *Scheme) timestampEntry(entry string) (string, bool) {
	if s.TimestampField == "" || !strings.HasPrefix(entry, s.TimestampField) {
		return "", false
	}
	return strings.CutPrefix(entry[len(s.TimestampField):], "=")
}

// signatureEntry returns the encoded signature of an entry that is ours.
func (m *scratch) signatureEntry(s *Scheme, entry string) (encoded string, public, ok bool) {
	if m.public && s.PublicPrefix != "" {
		if encoded, ok := strings.CutPrefix(entry, s.PublicPrefix); ok {
			return encoded, true, true
		}
	}
	encoded, ok = strings.CutPrefix(entry, s.Prefix)
	ok = ok || s.PrefixOptional
	if s.Kind == HMAC || s.Kind == Hash {
		return encoded, false, ok && m.shared
	}
	return encoded, true, ok
}

// otherVersion reports whether an entry looks like one of another version: a
// name that is not ours, "=" or ",", and something.
func (s *Scheme) otherVersion(entry string) bool {
	end := strings.IndexAny(entry, "=,")
	if s.Prefix == "" || end < 1 || end > 16 || strings.Trim(entry[end:], "=,") == "" {
		return false
	}
	name := entry[:end]
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return strings.IndexByte(letters, name[0]) >= 0 && strings.Trim(name, letters+"0123456789-_") == "" &&
		!strings.EqualFold(entry[:end+1], s.Prefix)
}
