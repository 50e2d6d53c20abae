package source

import (
	"slices"
	"strings"

	"github.com/hookonce/hookonce/pkg/signature"
)

// IDSigned reports whether the signature covers the id of an event, so that
// nobody on the way can send the same event under another.
func (p Preset) IDSigned() bool {
	for _, s := range append([]signature.Scheme{p.Scheme}, p.Scheme.Or...) {
		if slices.ContainsFunc(p.ID, func(l Locator) bool { return !covers(s, l) }) {
			return false
		}
	}
	return true
}

// covers reports whether s signs what is at l.
func covers(s signature.Scheme, l Locator) bool {
	switch {
	case strings.Contains(s.Signed, "{crc32}"): // which any body can be made to have
		return false
	case s.Kind == signature.Token || s.Kind == signature.Basic || l.Delivery:
		return false
	case s.BodyUnsigned: // what is named cannot go away either, so the other places do not matter
		return l.JSON.String() != "" && strings.Contains(s.Signed, "{"+l.JSON.String()+"}")
	case l.Header != "" && (!strings.EqualFold(l.Header, s.IDHeader) || !strings.Contains(s.Signed, "{id}")):
		return false
	}
	return !slices.ContainsFunc(l.Or, func(other Locator) bool { return !covers(s, other) })
}
