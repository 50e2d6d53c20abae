package signature

import (
	"errors"
	"fmt"
	"strings"
	"time"
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
func (s Scheme) check(signed []segment) error {
	var p problems
	_, known := hashes[s.Algorithm]
	p.when(!known, "algorithm %q: want sha1, sha256 or sha512", s.Algorithm)
	alphabet, known := alphabets[s.Encoding]
	p.when(!known, "encoding %q: want hex or base64", s.Encoding)
	p.when(!isHeaderName(s.Header), "header %q: not the name of a header", s.Header)
	if s.Separator != "" {
		p.when(strings.Contains(s.Prefix, s.Separator), "prefix %q: contains the separator %q", s.Prefix, s.Separator)
		p.when(strings.Trim(s.Separator, alphabet) == "", "separator %q: could be part of a signature", s.Separator)
	}
	p = append(p, s.checkTimestamp(uses(signed, timestampPart)), s.checkID(uses(signed, idPart)))
	return errors.Join(p...)
}

func (s Scheme) checkTimestamp(signed bool) error {
	var p problems
	field, header := s.TimestampField, s.TimestampHeader
	p.when(field != "" && header != "", "timestamp: in field %q or in header %q, not both", field, header)
	p.when(signed && field == "" && header == "", "signed %q: uses {timestamp}, but neither a field nor a header has it", s.Signed)
	p.when(!signed && field+header != "", "signed: the timestamp is read, but {timestamp} is not signed")
	p.when(!signed && s.Tolerance != 0, "tolerance %s: no {timestamp} is signed that could be checked", s.Tolerance)
	p.when(s.Tolerance < 0 || s.Tolerance%time.Second != 0, "tolerance %s: want whole seconds, 0 or more", s.Tolerance)
	if header != "" {
		p.when(!isHeaderName(header), "timestamp header %q: not the name of a header", header)
		p.when(strings.EqualFold(header, s.Header), "timestamp header %q: is the signature's too", header)
	}
	if field != "" {
		p.when(s.Separator == "", "timestamp field %q: needs a separator", field)
		p.when(s.Separator != "" && strings.Contains(field+"=", s.Separator), "timestamp field %q: contains the separator %q", field, s.Separator)
		p.when(strings.HasPrefix(s.Prefix, field+"="), "timestamp field %q: looks like the prefix %q", field, s.Prefix)
	}
	return errors.Join(p...)
}

func (s Scheme) checkID(signed bool) error {
	switch id := s.IDHeader; {
	case signed && id == "":
		return fmt.Errorf("signed %q: uses {id}, but no header has it", s.Signed)
	case !signed && id != "":
		return fmt.Errorf("id header %q: is read, but {id} is not signed", id)
	case id != "" && !isHeaderName(id):
		return fmt.Errorf("id header %q: not the name of a header", id)
	case id != "" && (strings.EqualFold(id, s.Header) || strings.EqualFold(id, s.TimestampHeader)):
		return fmt.Errorf("id header %q: is the signature's or the timestamp's too", id)
	}
	return nil
}

// isHeaderName reports whether name is a token of RFC 9110. Another one would
// not be brought into canonical form, and so would never be found.
func isHeaderName(name string) bool {
	const marks = "!#$%&'*+-.^_`|~"
	for _, c := range []byte(name) {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (c < '0' || c > '9') && strings.IndexByte(marks, c) < 0 {
			return false
		}
	}
	return name != ""
}
