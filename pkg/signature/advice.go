package signature

import (
	"encoding/base64"
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
		return fmt.Sprintf("there is no header %s: is a secret set at the provider, and does a proxy keep the header?", e.Where)
	case RepeatedHeader:
		return fmt.Sprintf("the header %s is there more than once", e.Where)
	case MalformedHeader:
		if e.Where != v.scheme.Header && !slices.Contains(v.scheme.MoreHeaders, e.Where) {
			return fmt.Sprintf("the header %s is empty or too long", e.Where)
		}
		return fmt.Sprintf("the header %s has nothing in it that could be a signature: want %s", e.Where, v.scheme.form())
	case UnknownScheme:
		return fmt.Sprintf("the header %s has only signatures of another version or algorithm: want %s", e.Where, v.scheme.form())
	case MalformedBody:
		return "the body has to be read to check the signature, and it is neither JSON nor a form"
	case MissingField:
		return fmt.Sprintf("the body has nothing at %s", e.Where)
	case MalformedField:
		return fmt.Sprintf("what the body has at %s is not what should be there", e.Where)
	case MalformedTimestamp:
		return fmt.Sprintf("the timestamp in %s is not in %s", e.Where, v.scheme.unit())
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
