package signature

import (
	"crypto/hmac"
	"crypto/sha256"
	"net/http"
	"strings"
)

// matchToken compares what the header says with the secrets. It compares
// hashes, so that the time tells nothing of a secret, not even its length.
func (v *Verifier) matchToken(m *scratch, h http.Header) (int, error) {
	s := &v.scheme
	value, err := one(h, s.Header)
	if err != nil {
		return -1, err
	}
	if n := len(s.Prefix); n > 0 {
		switch has := len(value) > n && strings.EqualFold(value[:n], s.Prefix); {
		case has:
			value = value[n:]
		case !s.PrefixOptional || len(value) <= n:
			return -1, &Error{MalformedHeader, s.Header}
		}
	}
	if s.Kind == Basic {
		n, err := strict.Decode(m.decoded, []byte(value))
		if err != nil || strings.ContainsAny(value, "\r\n") {
			return -1, &Error{MalformedHeader, s.Header}
		}
		value = string(m.decoded[:n])
	}
	sum := sha256.Sum256([]byte(value))
	found := -1
	for i, key := range m.keys {
		if hmac.Equal(key.shared, sum[:]) && found < 0 {
			found = i
		}
	}
	if found < 0 {
		return -1, &Error{NoMatch, s.Header}
	}
	return found, nil
}
