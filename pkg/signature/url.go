package signature

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"strings"
)

// readURL puts the URLs that may be the signed one into m; one that is empty if
// none is signed.
func (v *Verifier) readURL(m *scratch, r Request) error {
	switch s := &v.scheme; {
	case !v.signed.uses(urlPart):
		m.urls = append(m.urls, "")
		return nil
	case r.URL == "":
		return &Error{UnknownURL, s.place()}
	default:
		address := unescape(r.URL, s.URLDecoded)
		m.urls = append(m.urls, address)
		if s.PortOptional {
			m.urls = append(m.urls, otherPorts(address)...)
		}
	}
	return nil
}

// unescape decodes the percent escapes of some characters.
func unescape(s, chars string) string {
	if chars == "" || !strings.Contains(s, "%") {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '%' && i+2 < len(s) {
			if c, err := hex.DecodeString(s[i+1 : i+3]); err == nil && strings.IndexByte(chars, c[0]) >= 0 {
				b.WriteByte(c[0])
				i += 2
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

// otherPorts returns a URL without its port, or with the standard port.
func otherPorts(address string) []string {
	scheme, rest, ok := strings.Cut(address, "://")
	if !ok {
		return nil
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	host, path := rest[:end], rest[end:]
	if colon := strings.LastIndexByte(host, ':'); colon > strings.LastIndexAny(host, "]@") {
		return []string{scheme + "://" + host[:colon] + path}
	}
	port := map[string]string{"http": ":80", "https": ":443"}[strings.ToLower(scheme)]
	if port == "" {
		return nil
	}
	return []string{scheme + "://" + host + port + path}
}

// urlHash reports whether the query of the URL has the hash of a body, and
// whether that is another body than ours.
func urlHash(r Request, name string) (hashed, other bool) {
	_, query, _ := strings.Cut(r.URL, "?")
	query, _, _ = strings.Cut(query, "#")
	sum := sha256.Sum256(r.Body)
	want := hex.EncodeToString(sum[:])
	for part := range strings.SplitSeq(query, "&") {
		key, value, _ := strings.Cut(part, "=")
		if key != name {
			continue
		}
		value, err := url.QueryUnescape(value)
		hashed = true
		other = other || err != nil || subtle.ConstantTimeCompare([]byte(strings.ToLower(value)), []byte(want)) != 1
	}
	return hashed, other
}
