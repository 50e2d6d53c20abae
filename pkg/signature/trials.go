package signature

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// A trial is a scheme, its keys and a delivery with one thing changed.
type trial struct {
	what   string
	scheme Scheme
	keys   []key
	r      Request
}

// trials lists what is tried. The first changes nothing.
func (v *Verifier) trials(r Request) []trial {
	s := v.scheme
	keys := v.sharedKeys(s)
	all := []trial{{"", s, keys, r}}
	add := func(what string, s Scheme, keys []key, r Request) { all = append(all, trial{what, s, keys, r}) }
	for i, secret := range v.secrets() {
		for _, other := range s.otherKeys(secret) {
			add(fmt.Sprintf("with secret %d %s", i+1, other.what), s, []key{{shared: other.key}}, r)
		}
	}
	for _, other := range rewritten(r.Body) {
		changed := r
		changed.Body = other.body
		add("over the body "+other.what, s, keys, changed)
	}
	if v.signed.uses(urlPart) {
		for _, other := range otherURLs(r) {
			changed := r
			changed.URL = other.url
			add("with the URL "+other.what+aProxy, s, keys, changed)
		}
	}
	for _, algorithm := range slices.Sorted(maps.Keys(hashes)) {
		other := s
		if other.Algorithm = algorithm; algorithm != s.Algorithm {
			add("with "+strings.ToUpper(algorithm)+": set algorithm", other, keys, r)
		}
	}
	timed := v.timestampText(r) != ""
	for _, signed := range []string{"{body}", "{timestamp}.{body}", "{timestamp}{body}", "{timestamp}:{body}", "{timestamp},{body}", "{url}{body}"} {
		other := s
		if other.Signed = signed; signed != s.Signed && s.SignatureAt == "" && (timed || !strings.Contains(signed, "{timestamp}")) && (r.URL != "" || !strings.Contains(signed, "{url}")) {
			add("over "+signed+": set signed", other, keys, r)
		}
	}
	return all
}

func (v *Verifier) sharedKeys(s Scheme) []key {
	var keys []key
	for _, secret := range v.secrets() {
		if k, err := s.key(secret, false); err == nil && k.shared != nil {
			keys = append(keys, k)
		}
	}
	return keys
}

// A reading is what else a secret's text could mean.
type reading struct {
	what string // "with secret 1 " what
	key  []byte
}

// otherKeys returns what else a secret's text could mean, each key once, by
// what is the likeliest.
func (s Scheme) otherKeys(secret string) []reading {
	current, _ := s.sharedKey(secret)
	seen := map[string]bool{"": true, string(current.shared): true}
	var all []reading
	add := func(what string, key []byte) {
		if !seen[string(key)] {
			seen[string(key)] = true
			all = append(all, reading{what, key})
		}
	}
	add("as its whole text: set key_encoding", []byte(secret))
	if raw, ok := decodeBase64(strings.TrimPrefix(secret, "whsec_")); ok {
		add("decoded from base64: set key_encoding: base64, or whsec", raw)
	}
	if raw, ok := decodeHex(secret); ok {
		add("decoded from hex: set key_encoding: hex", raw)
	}
	add("and a newline after it: it was stored with one at the sender", []byte(secret+"\n"))
	add("and CR LF after it: it was stored with that at the sender", []byte(secret+"\r\n"))
	add("without the whsec_ before it", []byte(strings.TrimPrefix(secret, "whsec_")))
	add("with whsec_ before it: the whole text is the key", []byte("whsec_"+secret))
	add("without the quotes around it: they got into the secret", []byte(strings.Trim(secret, `"'`)))
	add("in lower case", []byte(strings.ToLower(secret)))
	add("in upper case", []byte(strings.ToUpper(secret)))
	return all
}

// sightings looks in all headers for the signature that a trial makes, in
// either encoding.
func (v *Verifier) sightings(t trial) (place, encoding string, found bool) {
	if len(t.keys) == 0 {
		return "", "", false
	}
	signed, err := t.scheme.compile()
	if err != nil {
		return "", "", false
	}
	places := map[string][]string{}
	maps.Copy(places, t.r.Header)
	m := newScratch(&t.scheme, t.keys)
	m.reset()
	m.id = append(m.id, t.r.Header.Get(t.scheme.IDHeader)...)
	m.timestamp = append(m.timestamp, v.timestampText(t.r)...)
	if len(v.inside.pointers) > 0 {
		if t.scheme.Items != "" || v.inside.open(m, t.r.Header, t.r.Body) != nil {
			return "", "", false
		}
		if v.inside.timestamp >= 0 {
			m.timestamp = append(m.timestamp, m.values[v.inside.timestamp]...)
		}
		if v.inside.signature >= 0 {
			places[v.scheme.SignatureAt] = []string{m.values[v.inside.signature]}
		}
	}
	other := &Verifier{scheme: t.scheme, signed: signed}
	if other.readMore(m, t.r) != nil || m.otherBody {
		return "", "", false
	}
	for _, url := range m.urls {
		m.url = append(m.url[:0], url...)
		m.sum(&signed, t.r)
		for _, sum := range m.sums {
			if place, encoding, found = seen(places, sum, v.scheme.place()); found {
				return place, encoding, true
			}
		}
	}
	return "", "", false
}

// seen returns where sum stands; first is looked at before the others.
func seen(places map[string][]string, sum []byte, first string) (place, encoding string, found bool) {
	names := append([]string{first}, slices.Sorted(maps.Keys(places))...)
	for _, name := range names {
		for _, value := range places[name] {
			switch {
			case strings.Contains(strings.ToLower(value), hex.EncodeToString(sum)):
				return name, "hex", true
			case strings.Contains(value, base64.RawStdEncoding.EncodeToString(sum)):
				return name, "base64", true
			case strings.Contains(value, base64.RawURLEncoding.EncodeToString(sum)):
				return name, "base64 of the URL alphabet", true
			}
		}
	}
	return "", "", false
}

// An address is a URL that the provider may have called instead.
type address struct{ what, url string }

// otherURLs returns what a provider may call if r came through a proxy.
func otherURLs(r Request) []address {
	scheme, rest, ok := strings.Cut(r.URL, "://")
	if !ok {
		return nil
	}
	var all []address
	add := func(what string, urls ...string) {
		for _, url := range urls {
			all = append(all, address{what, url})
		}
	}
	other := map[string]string{"http": "https", "https": "http"}[scheme]
	swapped := other + "://" + rest
	add("with "+other+" in the place of "+scheme, swapped)
	add("with another port", otherPorts(r.URL)...)
	add("with "+other+" and another port", otherPorts(swapped)...)
	before, query, hasQuery := strings.Cut(r.URL, "?")
	if hasQuery {
		add("without its query", before)
		query = "?" + query
	}
	if trimmed := strings.TrimRight(before, "/"); trimmed != before {
		add("without the slash at its end", trimmed+query)
	} else {
		add("with a slash at its end", before+"/"+query)
	}
	end := min(strings.IndexAny(rest+"/", "/?#"), len(rest))
	for _, name := range []string{"Host", "X-Forwarded-Host"} {
		if host := r.Header.Get(name); host != "" {
			add("with the host of the header "+name, scheme+"://"+host+rest[end:], other+"://"+host+rest[end:])
		}
	}
	return all
}
