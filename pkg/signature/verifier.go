package signature

import (
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"strconv"
	"sync"
	"time"
)

var hashes = map[string]func() hash.Hash{"sha1": sha1.New, "sha256": sha256.New, "sha512": sha512.New}

// A Verifier checks deliveries against a scheme and the secrets of one source.
// It is safe for concurrent use. The keys are out of reach of its printed form.
type Verifier struct {
	scheme Scheme // with canonical header names
	signed []segment
	memory sync.Pool // of *scratch, each with the keyed hashes
}

// Verifier makes a verifier that accepts what any of the secrets signed, which
// is how a secret is changed without a gap. The error names all that is wrong
// with the scheme and the secrets at once, and quotes nothing of a secret.
func (s Scheme) Verifier(secrets []string) (*Verifier, error) {
	signed, templateErr := compile(s.Signed)
	keys, keyErr := s.keys(secrets)
	if err := errors.Join(templateErr, s.check(signed), keyErr); err != nil {
		return nil, err
	}
	s.Header = http.CanonicalHeaderKey(s.Header)
	s.TimestampHeader = http.CanonicalHeaderKey(s.TimestampHeader)
	s.IDHeader = http.CanonicalHeaderKey(s.IDHeader)
	v := &Verifier{scheme: s, signed: signed}
	newHash := hashes[s.Algorithm]
	v.memory.New = func() any { return newScratch(newHash, keys) }
	return v, nil
}

// A Request is what of a delivery can be signed.
type Request struct {
	Method string
	URL    string      // absolute, as the provider calls it; "" if that is not known
	Header http.Header // with canonical names, as net/http makes them
	Body   []byte      // byte for byte as it came
}

// Verify reports whether r came from a holder of one of the secrets, and
// recently. It returns nil or an [*Error].
func (v *Verifier) Verify(r Request, now time.Time) error {
	_, err := v.Match(r, now)
	return err
}

// Match is Verify and says which secret it was, counted from 0, or -1 with an
// error. An old secret that matches nothing any more can go.
//
// Whether the timestamp is recent is asked last, so "too old" is only ever said
// of what the provider did sign: a wrong secret is not mistaken for a wrong clock.
func (v *Verifier) Match(r Request, now time.Time) (int, error) {
	m := v.memory.Get().(*scratch)
	defer v.memory.Put(m)
	sentAt, err := v.read(m, r.Header)
	if err != nil {
		return -1, err
	}
	secret := -1
	if len(m.signatures) > 0 { // garbage costs no hash
		m.sum(v.signed, r.Body)
		secret = m.match()
	}
	if secret < 0 {
		return -1, &Error{NoMatch, v.scheme.Header}
	}
	if err := v.fresh(sentAt, now); err != nil {
		return -1, err
	}
	return secret, nil
}

// fresh compares in whole seconds, since that is all the provider tells us; a
// fraction of ours must not decide at the boundary.
func (v *Verifier) fresh(sentAt int64, now time.Time) error {
	allowed := int64(v.scheme.Tolerance / time.Second)
	switch age := now.Unix() - sentAt; {
	case allowed == 0:
		return nil
	case age > allowed:
		return &Error{TooOld, v.timestampHeader()}
	case -age > allowed:
		return &Error{InFuture, v.timestampHeader()}
	}
	return nil
}

// Sign returns r as the provider would send it, signed with the first secret:
// with the headers of the signature set in a copy of r.Header. A scheme that
// signs no id, or no time, ignores it.
func (v *Verifier) Sign(r Request, id string, now time.Time) (Request, error) {
	m := v.memory.Get().(*scratch)
	defer v.memory.Put(m)
	s, h := &v.scheme, r.Header.Clone()
	if h == nil {
		h = http.Header{}
	}
	r.Header = h
	timestamp := strconv.FormatInt(now.Unix(), 10)
	m.id = append(m.id[:0], id...)
	m.timestamp = append(m.timestamp[:0], timestamp...)
	m.sum(v.signed, r.Body)

	value := s.Prefix + s.encode(m.sums[0])
	if s.TimestampField != "" {
		value = s.TimestampField + "=" + timestamp + s.Separator + value
	}
	h.Set(s.Header, value)
	if s.TimestampHeader != "" {
		h.Set(s.TimestampHeader, timestamp)
	}
	if s.IDHeader != "" {
		h.Set(s.IDHeader, id)
	}
	return r, nil
}

func (s *Scheme) encode(signature []byte) string {
	if s.Encoding == "hex" {
		return hex.EncodeToString(signature)
	}
	return base64.StdEncoding.EncodeToString(signature)
}
