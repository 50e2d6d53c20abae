package config

import (
	"mime"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/source"
)

// missing is what content_types has for a delivery without a Content-Type.
const missing = "missing"

// content reads how bodies are read.
func (m mapping) content(s *source.Source) {
	if v := m.key("content"); v.given() {
		s.Content = v.kinds()
	}
	if v := m.key("content_types"); v.given() {
		s.MediaTypes = v.mediaTypes()
	}
	if v := m.key("payload_field"); v.text(&s.PayloadField) && !slices.Contains(s.Content, source.Form) {
		v.wrong("is for forms: write content: [json, form] too")
	}
	m.key("gzip").choice(&s.Gzip, source.GzipPlain, source.GzipCompressed)
	if v := m.key("verify_token"); v.given() {
		s.VerifyToken = v.token()
	}
	handshake := string(s.Handshake)
	if m.key("handshake").choice(&handshake, "probe", "slack", "meta", "zoom", "discord", "xero", "dropbox", "sns") {
		s.Handshake = source.Handshake(handshake)
	}
}

// token reads a secret that must be there.
func (v value) token() source.Token {
	text, ok := v.secretText()
	if ok && strings.TrimSpace(text) == "" {
		v.wrong("must not be empty")
	}
	return source.Token(text)
}

// challengers are for a provider that wants us to prove that we know the
// secrets, which are good already.
func (m mapping) challengers(s *source.Source, how origin) {
	if s.Handshake != source.HandshakeZoom || s.Verifier == nil {
		return
	}
	secrets, _ := m.key("secrets").secrets(how.preset.Scheme)
	for _, secret := range secrets {
		v, err := source.ChallengeScheme().Verifier([]string{secret})
		if err != nil {
			m.key("secrets").wrong("%s", unquote(err.Error()))
			return
		}
		s.Challengers = append(s.Challengers, v)
	}
}

func (v value) kinds() []source.Kind {
	entries, ok := v.list("a list of json, form and opaque")
	if ok && len(entries) == 0 {
		v.wrong("must not be empty: want a list of json, form and opaque")
	}
	var kinds []source.Kind
	for _, entry := range entries {
		var kind string
		if entry.choice(&kind, string(source.JSON), string(source.Form), string(source.Opaque)) {
			kinds = append(kinds, source.Kind(kind))
		}
	}
	return kinds
}

func (v value) mediaTypes() []string {
	var all []string
	entries, _ := v.list("a list of media types, such as [text/plain]")
	for _, entry := range entries {
		var s string
		if !entry.text(&s) {
			continue
		}
		if s == missing {
			all = append(all, "")
			continue
		}
		media, params, err := mime.ParseMediaType(s)
		if err != nil || len(params) > 0 || !strings.Contains(media, "/") {
			entry.wrong("is not a media type: want such as text/plain, or %s for deliveries without a Content-Type", missing)
			continue
		}
		all = append(all, media)
	}
	return all
}

// filter reads which events are left out, and what their bodies may differ in.
func (m mapping) filter(s *source.Source) {
	if v := m.key("ignore"); v.given() {
		s.Ignore = v.texts(`a list of types, such as [ping, "check_run.*"]`)
	}
	if v := m.key("livemode"); v.given() {
		var live bool
		v.flag(&live)
		s.Live = &live
		if s.Livemode.Header == "" && s.Livemode.Form == "" && s.Livemode.JSON.String() == "" {
			s.Livemode.JSON = source.Pointer("/livemode")
		}
	}
	if v := m.key("ignore_fields"); v.given() {
		s.IgnoreFields = v.pointers()
	}
}

func (v value) texts(what string) []string {
	var all []string
	entries, _ := v.list(what)
	for _, entry := range entries {
		var s string
		if entry.text(&s) {
			all = append(all, s)
		}
	}
	return all
}

func (v value) pointers() []payload.Pointer {
	var all []payload.Pointer
	entries, _ := v.list("a list of JSON pointers, such as [/pending_webhooks]")
	for _, entry := range entries {
		var p payload.Pointer
		if entry.pointer(&p) {
			all = append(all, p)
		}
	}
	return all
}
