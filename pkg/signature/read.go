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
	maxDigits  = 12 // of a timestamp: enough for 30,000 years
)

// strict refuses encodings that differ from a valid one in their unused bits.
var strict = base64.StdEncoding.Strict()

// read takes the signatures, the timestamp and the id out of the headers, puts
// them into m, and returns the timestamp as a number too.
func (v *Verifier) read(m *scratch, h http.Header) (sentAt int64, err error) {
	value, err := one(h, v.scheme.Header)
	if err != nil {
		return 0, err
	}
	timestamp, err := v.readSignatures(m, value)
	if err != nil {
		return 0, err
	}
	if name := v.scheme.TimestampHeader; name != "" {
		if timestamp, err = one(h, name); err != nil {
			return 0, err
		}
	}
	if uses(v.signed, timestampPart) {
		var ok bool
		if sentAt, ok = parseUnix(timestamp); !ok {
			return 0, &Error{MalformedTimestamp, v.timestampHeader()}
		}
	}
	m.timestamp = append(m.timestamp[:0], timestamp...)
	m.id = m.id[:0]
	if name := v.scheme.IDHeader; name != "" {
		id, err := one(h, name)
		if err != nil {
			return 0, err
		}
		m.id = append(m.id, id...)
	}
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

// readSignatures takes the header apart. One entry that can be decoded is
// enough; the others may be of a version that is not ours, or damaged.
func (v *Verifier) readSignatures(m *scratch, value string) (timestamp string, err error) {
	var (
		s          = &v.scheme
		timestamps int
		decoded    bool
	)
	m.signatures, m.kept = m.signatures[:0], m.kept[:0]
	for n, more := 0, true; more; n++ {
		if n == maxEntries {
			return "", &Error{MalformedHeader, s.Header}
		}
		var entry string
		entry, value, more = s.cut(value)
		if t, ok := s.timestampEntry(entry); ok {
			timestamp = t
			timestamps++
		} else if encoded, ok := s.signatureEntry(entry); ok && m.decode(s.Encoding, encoded) {
			decoded = true
		}
	}
	if !decoded || s.TimestampField != "" && timestamps != 1 {
		return "", &Error{MalformedHeader, s.Header}
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

func (s *Scheme) signatureEntry(entry string) (string, bool) {
	encoded, ok := strings.CutPrefix(entry, s.Prefix)
	return encoded, ok || s.PrefixOptional
}

// timestampHeader names the header that the timestamp is in.
func (v *Verifier) timestampHeader() string {
	if v.scheme.TimestampHeader != "" {
		return v.scheme.TimestampHeader
	}
	return v.scheme.Header
}

// parseUnix takes digits only: a sign, a fraction or a space is not what the
// providers write, and what is signed is the text.
func parseUnix(s string) (int64, bool) {
	if s == "" || len(s) > maxDigits {
		return 0, false
	}
	var n int64
	for _, c := range []byte(s) {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = 10*n + int64(c-'0')
	}
	return n, true
}
