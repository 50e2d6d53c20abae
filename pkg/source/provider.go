package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
)

// A Preset is what is known of a provider: with a name and a secret it is a
// source. Its fields mean what those of [Source] with the same names mean.
type Preset struct {
	Scheme signature.Scheme

	ID           []Locator
	Type         []Locator
	Items        *Locator
	Content      []Kind
	PayloadField string
	MediaTypes   []string
	Gzip         string

	Handshake         Handshake
	Livemode          Locator
	Ignore            []string
	IgnoreFields      []payload.Pointer
	Replay            time.Duration
	FinalClientErrors bool
	AnswerBody        string
	KeepHeaders       []string

	About
}

// Source returns a source of that name with all that the preset says, the
// default limits, and no secret yet.
func (p Preset) Source(name string) Source {
	s := New(name)
	s.Provider, s.Unproven = p.Title, p.Title != "" && !p.Proven()
	s.ID, s.Type, s.Items = p.ID, p.Type, p.Items
	s.Content, s.PayloadField, s.MediaTypes, s.Gzip = p.Content, p.PayloadField, p.MediaTypes, p.Gzip
	s.Handshake, s.Livemode, s.Ignore, s.IgnoreFields = p.Handshake, p.Livemode, p.Ignore, p.IgnoreFields
	s.Replay, s.FinalClientErrors, s.AnswerBody, s.KeepHeaders = p.Replay, p.FinalClientErrors, p.AnswerBody, p.KeepHeaders
	return s
}
