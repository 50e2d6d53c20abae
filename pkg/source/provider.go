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

// A Handshake is how a provider tries an address: by a request that is answered
// at once, without a store, and of which nothing is kept.
type Handshake string

// The handshakes. A POST is answered only if its signature is right.
const (
	HandshakeNone    Handshake = ""
	HandshakeProbe   Handshake = "probe"   // GET and HEAD: 200 without a body
	HandshakeSlack   Handshake = "slack"   // POST {"type":"url_verification","challenge":…}: the challenge as text
	HandshakeMeta    Handshake = "meta"    // GET ?hub.mode=subscribe&hub.verify_token=…&hub.challenge=…: the challenge as text, if the token is VerifyToken
	HandshakeZoom    Handshake = "zoom"    // POST {"event":"endpoint.url_validation","payload":{"plainToken":…}}: the token and its HMAC
	HandshakeDiscord Handshake = "discord" // POST {"type":1}: {"type":1}
	HandshakeXero    Handshake = "xero"    // POST without events, with a good or a bad signature; no answer has a body
	HandshakeDropbox Handshake = "dropbox" // GET ?challenge=…: the challenge as text
	HandshakeSNS     Handshake = "sns"     // POST with a SubscribeURL: logged for a person to open, never fetched
)
