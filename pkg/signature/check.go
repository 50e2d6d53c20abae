package signature

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
)

// Which characters an encoded signature can have.
var alphabets = map[string]string{
	"hex":    "0123456789abcdefABCDEF",
	"base64": "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=",
}

// problems collects what is wrong, so that all of it can be said at once.
type problems []error

func (p *problems) when(bad bool, format string, args ...any) {
	if bad {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// check returns all that is wrong with s; signed is its compiled template.
func (s Scheme) check(signed *template) error {
	var p problems
	p.when(!slices.Contains([]Kind{HMAC, Hash, Ed25519, ECDSA, RSA, Token, Basic}, s.Kind), "kind %q: want hash, ed25519, ecdsa, rsa, token, basic or none", s.Kind)
	if s.Kind == Token || s.Kind == Basic {
		return errors.Join(append(p, s.checkToken())...)
	}
	_, known := hashes[s.Algorithm]
	p.when(!known && s.Kind != Ed25519, "algorithm %q: want sha1, sha256 or sha512", s.Algorithm)
	p.when(s.Algorithm != "" && s.Kind == Ed25519, "algorithm %q: ed25519 has its own", s.Algorithm)
	_, known = alphabets[s.Encoding]
	p.when(!known, "encoding %q: want hex or base64", s.Encoding)
	p.when(!slices.Contains([]string{"", "hex", "base64", "whsec"}, s.KeyEncoding), "key encoding %q: want hex, base64, whsec or none", s.KeyEncoding)
	p.when(s.KeyEncoding != "" && s.Kind != HMAC && s.Kind != Hash, "key encoding %q: a public key tells its own", s.KeyEncoding)
	p = append(p, s.checkPlaces(), s.checkPrefix(), s.checkBody(signed), s.checkTimestamp(signed), s.checkID(signed.uses(idPart)))
	return errors.Join(p...)
}

// checkPlaces is about where the signature is.
func (s Scheme) checkPlaces() error {
	var p problems
	p.when(s.SignatureAt == "" && !IsHeaderName(s.Header), "header %q: not the name of a header", s.Header)
	p.when(s.SignatureAt != "" && s.Header != "", "signature at %q: and in header %q, not both", s.SignatureAt, s.Header)
	p.when(s.OldHeader != "" && !IsHeaderName(s.OldHeader), "old header %q: not the name of a header", s.OldHeader)
	for _, name := range s.MoreHeaders {
		p.when(!IsHeaderName(name), "more headers %q: not the name of a header", name)
	}
	p.when(len(s.MoreHeaders) > 0 && s.Header == "", "more headers: without a first in header")
	p.when(len(s.MoreHeaders) >= maxEntries, "more headers: more than %d", maxEntries-1)
	p.when(s.Items != "" && s.SignatureAt == "", "items %q: need signature at, a pointer that starts at the item", s.Items)
	for _, at := range []struct{ name, pointer string }{{"signature at", s.SignatureAt}, {"items", s.Items}, {"timestamp at", s.TimestampAt}} {
		_, err := payload.ParsePointer(at.pointer)
		p.when(err != nil, "%s %q: not a JSON Pointer", at.name, at.pointer)
	}
	return errors.Join(p...)
}

func (s Scheme) checkPrefix() error {
	var p problems
	if s.Separator != "" {
		p.when(strings.Contains(s.Prefix, s.Separator), "prefix %q: contains the separator %q", s.Prefix, s.Separator)
		p.when(strings.Contains(s.PublicPrefix, s.Separator), "public prefix %q: contains the separator %q", s.PublicPrefix, s.Separator)
		p.when(strings.Trim(s.Separator, alphabets[s.Encoding]) == "", "separator %q: could be part of a signature", s.Separator)
	}
	p.when(s.PublicPrefix != "" && s.Kind != HMAC, "public prefix %q: is for HMAC schemes alone", s.PublicPrefix)
	p.when(s.PublicPrefix != "" && (s.PrefixOptional || strings.HasPrefix(s.PublicPrefix, s.Prefix)), "public prefix %q: looks like the prefix %q", s.PublicPrefix, s.Prefix)
	return errors.Join(p...)
}

// checkBody is about what the template covers.
func (s Scheme) checkBody(signed *template) error {
	var p problems
	covered, symmetric := signed.coversBody(), s.Kind == HMAC || s.Kind == Hash
	p.when(!covered && !s.BodyUnsigned, "signed %q: without {body} anybody could change the body: say body_unsigned if that is so", s.Signed)
	p.when(covered && s.BodyUnsigned, "body unsigned: but %q covers it", s.Signed)
	p.when(s.Items != "" && signed.uses(bodyPart), "signed %q: {body} is not of one item", s.Signed)
	p.when(s.Kind == Hash && !signed.uses(secretPart), "signed %q: a hash without {secret} proves nothing", s.Signed)
	p.when(!symmetric && signed.uses(secretPart), "signed %q: a public key is no {secret}", s.Signed)
	needsID := strings.Contains(s.Signed, "{webhook_id}")
	p.when(needsID && s.WebhookID == "", "webhook id: missing, but it is signed: see what the provider calls this webhook")
	p.when(!needsID && s.WebhookID != "", "webhook id %q: is not signed", s.WebhookID)
	p.when(!signed.uses(urlPart) && (s.PortOptional || s.URLDecoded != "" || s.URLBodyHash != ""), "url: no {url} is signed")
	p.when(s.URLBodyHash != "" && !signed.uses(formPart), "url body hash %q: is for {form} alone", s.URLBodyHash)
	return errors.Join(p...)
}

// checkToken is about schemes that sign nothing.
func (s Scheme) checkToken() error {
	var p problems
	p.when(s.SignatureAt == "" && !IsHeaderName(s.Header), "header %q: not the name of a header", s.Header)
	p.when(s.Signed+s.TimestampField+s.TimestampHeader+s.TimestampAt+s.IDHeader+s.Separator+s.Items != "" || s.Tolerance != 0, "kind %q: signs nothing, so it takes no more than header and prefix", s.Kind)
	p.when(s.Algorithm+s.Encoding+s.KeyEncoding != "", "kind %q: has no algorithm and no encoding", s.Kind)
	p.when(s.SignatureAt != "", "kind %q: is in a header", s.Kind)
	p.when(s.Kind == Basic && s.Prefix != "", "prefix %q: basic has its own", s.Prefix)
	return errors.Join(p...)
}

func (s Scheme) checkTimestamp(t *template) error {
	var p problems
	signed := t.uses(timestampPart)
	field, header, at := s.TimestampField, s.TimestampHeader, s.TimestampAt
	p.when(field != "" && header != "", "timestamp: in field %q or in header %q, not both", field, header)
	p.when(at != "" && field+header != "", "timestamp: in the body or in a header, not both")
	p.when(signed && field+header+at == "", "signed %q: uses {timestamp}, but neither a field nor a header has it", s.Signed)
	signed = signed || at != "" && t.coversBody()
	p.when(!signed && field+header+at != "", "signed: the timestamp is read, but {timestamp} is not signed")
	p.when(!signed && s.Tolerance != 0, "tolerance %s: no {timestamp} is signed that could be checked", s.Tolerance)
	p.when(s.Tolerance < 0 || s.Tolerance%time.Second != 0, "tolerance %s: want whole seconds, 0 or more", s.Tolerance)
	p.when(!slices.Contains([]string{"", "ms", "rfc3339"}, s.TimestampUnit), "timestamp unit %q: want ms, rfc3339 or none", s.TimestampUnit)
	p.when(s.TimestampUnit != "" && field+header+at == "", "timestamp unit %q: there is no timestamp", s.TimestampUnit)
	if header != "" {
		p.when(!IsHeaderName(header), "timestamp header %q: not the name of a header", header)
		p.when(strings.EqualFold(header, s.Header), "timestamp header %q: is the signature's too", header)
	}
	if field != "" {
		p.when(s.Separator == "", "timestamp field %q: needs a separator", field)
		p.when(s.Separator != "" && strings.Contains(field+"=", s.Separator), "timestamp field %q: contains the separator %q", field, s.Separator)
		p.when(strings.HasPrefix(s.Prefix, field+"="), "timestamp field %q: looks like the prefix %q", field, s.Prefix)
		p.when(len(s.MoreHeaders) > 0, "timestamp field %q: and more headers, not both", field)
	}
	return errors.Join(p...)
}

func (s Scheme) checkID(signed bool) error {
	switch id := s.IDHeader; {
	case signed && id == "":
		return fmt.Errorf("signed %q: uses {id}, but no header has it", s.Signed)
	case !signed && id != "":
		return fmt.Errorf("id header %q: is read, but {id} is not signed", id)
	case id != "" && !IsHeaderName(id):
		return fmt.Errorf("id header %q: not the name of a header", id)
	case id != "" && (strings.EqualFold(id, s.Header) || strings.EqualFold(id, s.TimestampHeader)):
		return fmt.Errorf("id header %q: is the signature's or the timestamp's too", id)
	}
	return nil
}

// IsHeaderName reports whether name is a token of RFC 9110. Another one would
// not be brought into canonical form, and so would never be found.
func IsHeaderName(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return name != ""
}
