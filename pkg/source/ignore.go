package source

import (
	"slices"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// ignores reports whether one of the globs is for typ.
func (s *Source) ignores(typ string) bool {
	return slices.ContainsFunc(s.Ignore, func(glob string) bool { return webhook.Matches(glob, typ) })
}

// otherMode reports whether the event says that it is not of the mode that is
// wanted. One that does not say is.
func (s *Source) otherMode(v *view) bool {
	live := "true"
	found := v.next(s.Livemode.Envelope)
	text, there, err := v.raw(&s.Livemode, found)
	switch {
	case found.Kind == payload.Bool:
		text = string(found.Raw)
	case !there || err != nil || text != "true" && text != "false":
		return false
	}
	if !*s.Live {
		live = "false"
	}
	return text != live
}

// SameBody reports whether two bodies of one event differ in nothing but the
// fields that the provider changes between its attempts.
func (s *Source) SameBody(a, b []byte) bool {
	return len(s.IgnoreFields) > 0 && payload.Same(a, b, s.IgnoreFields...)
}
