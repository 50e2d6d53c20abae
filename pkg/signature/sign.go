package signature

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

var errUnknownURL = errors.New("the URL is signed too: say what the provider calls")

// Sign returns r as the provider would send it, signed with the first secret
// that can: with the headers of the signature set in a copy of r.Header, and
// with what belongs into the body or the URL set there. A scheme that signs no
// id, or no time, ignores it. Who has only a public key cannot sign, and a body
// that would be refused for what it is cannot be signed inside.
func (v *Verifier) Sign(r Request, id string, now time.Time) (Request, error) {
	m := v.memory.Get().(*scratch)
	defer v.memory.Put(m)
	m.reset()
	if r.Header = r.Header.Clone(); r.Header == nil {
		r.Header = http.Header{}
	}
	s := &v.scheme
	switch s.Kind {
	case Token:
		r.Header.Set(s.Header, s.Prefix+v.secrets()[0])
		return r, nil
	case Basic:
		r.Header.Set(s.Header, s.Prefix+base64.StdEncoding.EncodeToString([]byte(v.secrets()[0])))
		return r, nil
	}
	var err error
	if s.Items != "" {
		r, err = v.signItems(m, r, id, now)
	} else {
		r, err = v.signOne(m, r, nil, id, now)
	}
	if err == nil && (s.TimestampAt != "" || s.SignatureAt != "") {
		// A body that has its place for them may be one that no receiver reads.
		_, err = v.Match(r, now)
	}
	return r, err
}

func (v *Verifier) signItems(m *scratch, r Request, id string, now time.Time) (Request, error) {
	path := steps(v.scheme.Items)
	var items []json.RawMessage
	if json.Unmarshal(get(r.Body, path), &items) != nil || len(items) == 0 {
		return r, errors.New("the body has no items to sign at " + v.scheme.Items)
	}
	for i := range items {
		m.reset()
		var err error
		if r, err = v.signOne(m, r, append(path[:len(path):len(path)], strconv.Itoa(i)), id, now); err != nil {
			return r, err
		}
	}
	return r, nil
}

// signOne signs the body, or the item of it that is at the end of the path.
func (v *Verifier) signOne(m *scratch, r Request, path []string, id string, now time.Time) (Request, error) {
	s := &v.scheme
	timestamp := s.formatTime(now)
	var err error
	if s.TimestampAt != "" {
		if r.Body, err = put(r, path, s.TimestampAt, timestamp, true); err != nil {
			return r, err
		}
	}
	if err := v.gather(m, &r, path, id, timestamp); err != nil {
		return r, err
	}
	signature, public, err := v.produce(m, r)
	if err != nil {
		return r, err
	}
	value := s.Prefix + s.encode(signature)
	if public && s.PublicPrefix != "" {
		value = s.PublicPrefix + s.encode(signature)
	}
	if s.SignatureAt != "" {
		r.Body, err = put(r, path, s.SignatureAt, value, false)
		return r, err
	}
	if s.TimestampField != "" {
		value = s.TimestampField + "=" + timestamp + s.Separator + value
	}
	r.Header.Set(s.Header, value)
	return r, nil
}

// gather puts all that is signed into m, and what of it is not in the request
// yet into that.
func (v *Verifier) gather(m *scratch, r *Request, path []string, id, timestamp string) error {
	s := &v.scheme
	m.id = append(m.id, id...)
	m.timestamp = append(m.timestamp, timestamp...)
	if s.TimestampHeader != "" {
		r.Header.Set(s.TimestampHeader, timestamp)
	}
	if s.IDHeader != "" {
		r.Header.Set(s.IDHeader, id)
	}
	for _, segment := range v.signed.segments {
		if segment.part == headerPart && r.Header.Get(segment.header) == "" {
			r.Header.Set(segment.header, id)
		}
	}
	if v.signed.uses(urlPart) && r.URL == "" {
		return errUnknownURL
	}
	if hashed, _ := urlHash(*r, s.URLBodyHash); s.URLBodyHash != "" && !hashed && len(r.Body) > 0 && !isForm(r.Header, r.Body) {
		sum := sha256.Sum256(r.Body)
		r.URL += map[bool]string{true: "&", false: "?"}[strings.Contains(r.URL, "?")] + s.URLBodyHash + "=" + hex.EncodeToString(sum[:])
	}
	if len(v.signed.pointers) > 0 {
		doc := r.Body
		if len(path) > 0 {
			doc = get(doc, path)
		}
		values := places{v.signed.pointers, -1, -1} // the signature is not there yet
		if err := values.open(m, r.Header, doc); err != nil {
			return err
		}
	}
	return v.readMore(m, *r)
}

// produce makes the signature of what m holds.
func (v *Verifier) produce(m *scratch, r Request) (signature []byte, public bool, err error) {
	m.url = append(m.url[:0], m.urls[0]...)
	for i, key := range m.keys {
		switch {
		case m.macs[i] != nil:
			m.sum(&v.signed, r)
			return m.sums[i], false, nil
		case key.private != nil:
			signature, err := v.scheme.signText(key.private, m.compose(&v.signed, r))
			return signature, true, err
		}
	}
	return nil, false, errPublicOnly
}

func (s *Scheme) encode(signature []byte) string {
	if s.Encoding == "hex" {
		return hex.EncodeToString(signature)
	}
	return base64.StdEncoding.EncodeToString(signature)
}

// put sets a value in the body, which is a form or JSON. A number stays one.
func put(r Request, path []string, pointer, value string, number bool) ([]byte, error) {
	if isForm(r.Header, r.Body) {
		return putField(r.Body, fieldName(pointer), value), nil
	}
	path = append(path[:len(path):len(path)], steps(pointer)...)
	text, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	old := get(r.Body, path)
	if _, bad := strconv.ParseUint(value, 10, 64); number && bad == nil && (len(old) == 0 || old[0] != '"') {
		text = []byte(value)
	}
	body, ok := set(r.Body, path, text)
	if !ok {
		return nil, errors.New("the body has no place for the signature: want a JSON object or a form")
	}
	return body, nil
}

// putField sets a field of a form.
func putField(body []byte, name, value string) []byte {
	var parts []string
	for part := range strings.SplitSeq(string(body), "&") {
		key, _, _ := strings.Cut(part, "=")
		if key, err := url.QueryUnescape(key); part != "" && (err != nil || key != name) {
			parts = append(parts, part)
		}
	}
	parts = append(parts, url.QueryEscape(name)+"="+url.QueryEscape(value))
	return []byte(strings.Join(parts, "&"))
}
