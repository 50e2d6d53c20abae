package signature

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Advice says to a person why a delivery is refused and what to try, a sentence
// each; it has none for one that is good. It looks for what usually goes wrong
// by changing one thing at a time, so it takes its time and is not for strangers
// to read. It never tells a secret.
func (v *Verifier) Advice(r Request, now time.Time) []string {
	_, err := v.Match(r, now)
	e, ok := errors.AsType[*Error](err)
	if !ok {
		return nil
	}
	all := []string{v.explain(e)}
	for _, one := range append([]*Verifier{v}, v.or...) {
		for _, line := range one.advise(e.Reason, r) {
			if !slices.Contains(all, line) {
				all = append(all, line)
			}
		}
	}
	return all
}

// explain puts the reason into a sentence.
func (v *Verifier) explain(e *Error) string {
	switch e.Reason {
	case MissingHeader:
		return fmt.Sprintf("there is no header %s: is a secret set at the provider, and does a proxy keep the header?", e.Header)
	case RepeatedHeader:
		return fmt.Sprintf("the header %s is there more than once", e.Header)
	case MalformedHeader:
		if e.Header != v.scheme.Header && !slices.Contains(v.scheme.MoreHeaders, e.Header) {
			return fmt.Sprintf("the header %s is empty or too long", e.Header)
		}
		return fmt.Sprintf("the header %s has nothing in it that could be a signature: want %s", e.Header, v.scheme.form())
	case UnknownScheme:
		return fmt.Sprintf("the header %s has only signatures of another version or algorithm: want %s", e.Header, v.scheme.form())
	case MalformedBody:
		return "the body has to be read to check the signature, and it is neither JSON nor a form"
	case MissingField:
		return fmt.Sprintf("the body has nothing at %s", e.Header)
	case MalformedField:
		return fmt.Sprintf("what the body has at %s is not what should be there", e.Header)
	case MalformedTimestamp:
		return fmt.Sprintf("the timestamp in %s is not in %s", e.Header, v.scheme.unit())
	case UnknownURL:
		return "the URL is signed too: give the one that the provider calls, with --url or public_url"
	case BodyAltered:
		return "the signature is right, but the body is not what was signed: it must be checked byte for byte as it came"
	case TooOld:
		return fmt.Sprintf("the signature is right, but older than %s: is the clock right, or was the delivery recorded? (--now takes the time it came)", v.scheme.Tolerance)
	case InFuture:
		return fmt.Sprintf("the signature is right, but more than %s ahead: is the clock right?", v.scheme.Tolerance)
	}
	return "no secret made the signature over this text: is it the secret of this very endpoint?"
}

// form says how a signature looks.
func (s *Scheme) form() string {
	encoding := map[string]string{"hex": "a signature in hex", "base64": "a signature in base64", "": "the secret"}[s.Encoding]
	if s.Kind == Basic {
		encoding = "user:password in base64"
	}
	if s.Prefix != "" {
		encoding = fmt.Sprintf("%q and %s", s.Prefix, encoding)
	}
	if s.TimestampField != "" {
		encoding = fmt.Sprintf("%q, the time, %q and %s", s.TimestampField+"=", s.Separator, encoding)
	}
	return encoding
}

func (s *Scheme) unit() string {
	return map[string]string{"": "seconds", "ms": "milliseconds", "rfc3339": "RFC 3339"}[s.TimestampUnit]
}

// advise looks for the one change that makes the signature right.
func (v *Verifier) advise(reason Reason, r Request) []string {
	if reason == TooOld || reason == InFuture || reason == RepeatedHeader {
		return nil
	}
	var all []string
	switch v.scheme.Kind {
	case HMAC, Hash:
		all = v.adviseShared(r)
	case Token, Basic:
		return v.adviseToken(r)
	default:
		all = v.advisePublic(r)
	}
	return append(v.adviseTime(r), all...)
}

// adviseTime looks at the unit of the timestamp.
func (v *Verifier) adviseTime(r Request) []string {
	text := v.timestampText(r)
	if _, ok := v.scheme.parseTime(text); ok || text == "" {
		return nil
	}
	for _, unit := range []string{"", "ms", "rfc3339"} {
		other := Scheme{TimestampUnit: unit}
		if _, ok := other.parseTime(text); ok {
			return []string{fmt.Sprintf("the timestamp is in %s, and the scheme has it in %s: set timestamp_unit", other.unit(), v.scheme.unit())}
		}
	}
	return nil
}

// timestampText finds the timestamp, if there is one at all.
func (v *Verifier) timestampText(r Request) string {
	s := &v.scheme
	switch {
	case s.TimestampHeader != "":
		return r.Header.Get(s.TimestampHeader)
	case s.TimestampField != "":
		for entry := range strings.SplitSeq(r.Header.Get(s.Header), s.Separator) {
			if text, ok := s.timestampEntry(strings.TrimSpace(entry)); ok {
				return text
			}
		}
	}
	return ""
}

// A trial is a scheme, its keys and a delivery with one thing changed.
type trial struct {
	what   string
	scheme Scheme
	keys   []key
	r      Request
}

// adviseShared computes what the signature should be if one thing were
// different, and looks for that in all headers.
func (v *Verifier) adviseShared(r Request) []string {
	for _, t := range v.trials(r) {
		name, encoding, found := v.sightings(t)
		switch {
		case !found:
			continue
		case t.what != "":
			return []string{"the signature would be right " + t.what}
		case name != v.scheme.place():
			return []string{fmt.Sprintf("the right signature is in %s, in %s, and not in %s: set header", name, encoding, v.scheme.place())}
		case encoding != v.scheme.Encoding:
			return []string{fmt.Sprintf("the right signature is there, but in %s: set encoding", encoding)}
		}
		return []string{fmt.Sprintf("the right signature is there, but not after %q: set prefix and separator, or look for white space", v.scheme.Prefix)}
	}
	return nil
}

// trials lists what is tried. The first changes nothing.
func (v *Verifier) trials(r Request) []trial {
	s := v.scheme
	keys := v.sharedKeys(s)
	all := []trial{{"", s, keys, r}}
	add := func(what string, s Scheme, keys []key, r Request) { all = append(all, trial{what, s, keys, r}) }
	for i, secret := range v.secrets() {
		for what, other := range s.otherKeys(secret) {
			add(fmt.Sprintf("with secret %d %s", i+1, what), s, []key{{shared: other}}, r)
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

// otherKeys returns what else a secret's text could mean.
func (s Scheme) otherKeys(secret string) map[string][]byte {
	keys := map[string][]byte{
		"as its whole text: set key_encoding":                          []byte(secret),
		"and a newline after it: it was stored with one at the sender": []byte(secret + "\n"),
		"and CR LF after it: it was stored with that at the sender":    []byte(secret + "\r\n"),
		"without the whsec_ before it":                                 []byte(strings.TrimPrefix(secret, "whsec_")),
		"with whsec_ before it: the whole text is the key":             []byte("whsec_" + secret),
		"without the quotes around it: they got into the secret":       []byte(strings.Trim(secret, `"'`)),
		"in lower case": []byte(strings.ToLower(secret)),
		"in upper case": []byte(strings.ToUpper(secret)),
	}
	if raw, ok := decodeBase64(strings.TrimPrefix(secret, "whsec_")); ok {
		keys["decoded from base64: set key_encoding: base64, or whsec"] = raw
	}
	if raw, ok := decodeHex(secret); ok {
		keys["decoded from hex: set key_encoding: hex"] = raw
	}
	current, _ := s.sharedKey(secret)
	maps.DeleteFunc(keys, func(_ string, k []byte) bool { return len(k) == 0 || string(k) == string(current.shared) })
	return keys
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

// adviseToken looks for a secret that is elsewhere or damaged.
func (v *Verifier) adviseToken(r Request) []string {
	var all []string
	for i, secret := range v.secrets() {
		text := secret
		if v.scheme.Kind == Basic {
			text = base64.StdEncoding.EncodeToString([]byte(secret))
		}
		for _, name := range slices.Sorted(maps.Keys(r.Header)) {
			for _, value := range r.Header[name] {
				switch {
				case !strings.Contains(value, text):
				case name != v.scheme.Header:
					all = append(all, fmt.Sprintf("secret %d is in the header %s: set header", i+1, name))
				default:
					all = append(all, fmt.Sprintf("secret %d is in the header, with something around it: set prefix, or look for white space and quotes", i+1))
				}
			}
		}
	}
	return all
}

// aProxy is what to think of where another URL is right.
const aProxy = ": set public_url to what the provider calls, or trust the proxy"

// advisePublic tries other bodies, URLs and headers.
func (v *Verifier) advisePublic(r Request) []string {
	good := func(r Request) bool {
		m := v.memory.Get().(*scratch)
		defer v.memory.Put(m)
		_, err := v.read(m, r, r.Body)
		return err == nil && v.prove(m, r) >= 0
	}
	for _, other := range rewritten(r.Body) {
		changed := r
		if changed.Body = other.body; good(changed) {
			return []string{"the signature would be right over the body " + other.what}
		}
	}
	for _, other := range otherURLs(r) {
		changed := r
		if changed.URL = other.url; v.signed.uses(urlPart) && good(changed) {
			return []string{"the signature would be right with the URL " + other.what + aProxy}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		changed := r
		changed.Header = r.Header.Clone()
		changed.Header[v.scheme.Header] = r.Header[name]
		if name != v.scheme.Header && v.scheme.Header != "" && good(changed) {
			return []string{fmt.Sprintf("the right signature is in the header %s: set header", name)}
		}
	}
	return nil
}
