package signature

import (
	"crypto"
	_ "crypto/sha1" // for hashes, as the next two
	_ "crypto/sha256"
	_ "crypto/sha512"
	"errors"
	"net/http"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
)

var hashes = map[string]crypto.Hash{"sha1": crypto.SHA1, "sha256": crypto.SHA256, "sha512": crypto.SHA512}

// A Request is what of a delivery can be signed.
type Request struct {
	Method string
	URL    string      // absolute, as the provider calls it; "" if that is not known
	Header http.Header // with canonical names, as net/http makes them
	Body   []byte      // byte for byte as it came
}

// A Verifier checks deliveries against a scheme and the secrets of one source.
// It is safe for concurrent use. The keys are out of reach of its printed form.
type Verifier struct {
	scheme  Scheme // with canonical header names
	signed  template
	inside  places
	items   payload.Pointer
	memory  sync.Pool // of *scratch, each with the keyed hashes
	secrets func() []string
	or      []*Verifier
}

// Verifier makes a verifier that accepts what any of the secrets signed, which
// is how a secret is changed without a gap. The error names all that is wrong
// with the scheme and the secrets at once, and quotes nothing of a secret.
func (s Scheme) Verifier(secrets []string) (*Verifier, error) { return s.verifier(secrets, false) }

// Signer makes a verifier that can sign too if the scheme has public keys: the
// secret is then the private one, in PEM. For other schemes it is the secret.
func (s Scheme) Signer(secret string) (*Verifier, error) { return s.verifier([]string{secret}, true) }

// Check returns all that is wrong with the scheme.
func (s Scheme) Check() error {
	signed, err := s.compile()
	errs := []error{err, s.check(&signed)}
	for _, other := range s.Or {
		errs = append(errs, other.Check())
	}
	return errors.Join(errs...)
}

func (s Scheme) verifier(secrets []string, signer bool) (*Verifier, error) {
	signed, templateErr := s.compile()
	keys, keyErr := s.keys(secrets, signer)
	if err := errors.Join(templateErr, s.check(&signed), keyErr); err != nil {
		return nil, err
	}
	secrets = slices.Clone(secrets)
	v := &Verifier{scheme: s.canonical(), signed: signed, inside: s.places(&signed), secrets: func() []string { return secrets }}
	v.items, _ = payload.ParsePointer(s.Items) // which was checked
	v.memory.New = func() any { return newScratch(&v.scheme, keys) }
	for _, other := range s.Or {
		or, err := other.verifier(secrets, signer)
		if err != nil {
			return nil, err
		}
		v.or = append(v.or, or)
	}
	return v, nil
}

// Equal reports whether both accept the same, with the same secrets. Either may
// be nil.
func (v *Verifier) Equal(other *Verifier) bool {
	if v == nil || other == nil {
		return v == other
	}
	return reflect.DeepEqual(v.scheme, other.scheme) && slices.Equal(v.secrets(), other.secrets())
}

// canonical brings the names of the headers into the form of net/http.
func (s Scheme) canonical() Scheme {
	s.Header = http.CanonicalHeaderKey(s.Header)
	s.OldHeader = http.CanonicalHeaderKey(s.OldHeader)
	s.TimestampHeader = http.CanonicalHeaderKey(s.TimestampHeader)
	s.IDHeader = http.CanonicalHeaderKey(s.IDHeader)
	s.MoreHeaders = slices.Clone(s.MoreHeaders)
	for i, name := range s.MoreHeaders {
		s.MoreHeaders[i] = http.CanonicalHeaderKey(name)
	}
	if s.Kind == Basic {
		s.Prefix = "Basic "
	}
	return s
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
	secret, err := v.match(r, now)
	for _, other := range v.or {
		if sameHeader := other.scheme.Header == v.scheme.Header; !elsewhere(err) && (!sameHeader || !unmatched(err)) {
			continue
		}
		again, otherErr := other.match(r, now)
		if !elsewhere(otherErr) || absent(err) && !absent(otherErr) {
			secret, err = again, otherErr
		}
	}
	return secret, err
}

// elsewhere reports whether the signature could be one of another scheme.
func elsewhere(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && slices.Contains([]Reason{MissingHeader, MalformedHeader, MalformedBody, UnknownScheme, MissingField}, e.Reason)
}

// unmatched reports whether the signature of a header was not made so. Another
// hash or encoding in the same header could be it.
func unmatched(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Reason == NoMatch
}

// absent reports whether there was nothing at all to look at.
func absent(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Reason == MissingHeader || e.Reason == MissingField)
}

// match is Match of the scheme itself, without the others.
func (v *Verifier) match(r Request, now time.Time) (int, error) {
	m := v.memory.Get().(*scratch)
	defer v.memory.Put(m)
	if v.scheme.Kind == Token || v.scheme.Kind == Basic {
		return v.matchToken(m, r.Header)
	}
	if v.scheme.Items != "" {
		return v.matchItems(m, r, now)
	}
	return v.matchOne(m, r, r.Body, now)
}

// matchOne checks one signature; values of the body are looked for in doc.
func (v *Verifier) matchOne(m *scratch, r Request, doc []byte, now time.Time) (int, error) {
	sentAt, err := v.read(m, r, doc)
	if err != nil {
		return -1, err
	}
	if len(m.signatures) == 0 { // garbage costs no hash
		return -1, &Error{NoMatch, v.scheme.place()}
	}
	secret := v.prove(m, r)
	switch {
	case secret < 0 && v.altered(m, r):
		return -1, &Error{BodyAltered, v.scheme.place()}
	case secret < 0:
		return -1, &Error{NoMatch, v.scheme.place()}
	}
	if m.otherBody {
		return -1, &Error{BodyAltered, v.scheme.URLBodyHash}
	}
	if v.readsLate() {
		if sentAt, err = v.readLate(m, r); err != nil {
			return -1, err
		}
	}
	if err := v.fresh(sentAt, now); err != nil {
		return -1, err
	}
	return secret, nil
}

// prove returns the index of the first secret that made one of the signatures,
// or -1.
func (v *Verifier) prove(m *scratch, r Request) int {
	for _, url := range m.urls {
		m.url = append(m.url[:0], url...)
		if secret := v.proveURL(m, r); secret >= 0 {
			return secret
		}
	}
	return -1
}

func (v *Verifier) proveURL(m *scratch, r Request) int {
	if m.shared {
		m.sum(&v.signed, r)
		if secret := m.match(); secret >= 0 {
			return secret
		}
	}
	if !m.public {
		return -1
	}
	text := m.compose(&v.signed, r)
	found := -1
	for i, key := range m.keys {
		for _, s := range m.signatures {
			if found < 0 && key.public != nil && s.public && v.scheme.good(key.public, text, s.bytes) {
				found = i
			}
		}
	}
	return found
}

// place names where the signature is.
func (s *Scheme) place() string {
	if s.SignatureAt != "" {
		return s.SignatureAt
	}
	return s.Header
}
