package config

import (
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// An origin is who posts to a source, and how that is checked.
type origin struct {
	kind   string // none, provider, or the scheme; "" if what the file says was reported
	preset source.Preset
	sound  bool // preset.Scheme makes sense
}

func (o origin) hasID() bool { return len(o.preset.ID) > 0 || o.preset.ContentID }

// origin reads the keys provider and verify of a source.
func (m mapping) origin() origin {
	provider, verify := m.key("provider"), m.key("verify")
	switch {
	case provider.given() && verify.given():
		verify.wrong("the provider already says how deliveries are signed: leave one of the two out")
		return origin{}
	case verify.given():
		return verify.verify()
	case !provider.given():
		m.wrong("neither provider nor verify: say verify: none if nobody signs")
		return origin{}
	}
	var name string
	if !provider.provider(&name) {
		return origin{}
	}
	preset, _ := source.FindPreset(name)
	return origin{kind: "provider", preset: preset, sound: true}
}

const (
	aVerify = "none, or a mapping such as {scheme: hmac, header: X-Signature}"
	// dummy is a good secret in every encoding.
	dummy = "AAAA"
)

func (v value) verify() origin {
	if raw, ok := v.raw(); ok {
		if s, _, ok := v.expand(raw); ok && s != "none" {
			v.wrong("want %s", aVerify)
			return origin{}
		}
		return origin{kind: "none"}
	}
	m, ok := v.record(aVerify, "scheme", "header", "algorithm", "encoding", "prefix", "prefix_optional", "separator",
		"timestamp_header", "timestamp_field", "id_header", "signed", "tolerance", "key_encoding")
	if !ok {
		return origin{}
	}
	var o origin
	if s := m.key("scheme"); !s.given() {
		s.wrong("missing: want one of hmac, standard-webhooks, github, stripe")
	} else {
		s.choice(&o.kind, "hmac", "standard-webhooks", "github", "stripe")
	}
	before := len(v.doc.problems)
	switch o.kind {
	case "hmac":
		o.preset.Scheme = m.hmac()
	case "standard-webhooks":
		o.preset.Scheme = signature.StandardWebhooks("webhook")
		o.preset.ID = []source.Locator{{Header: "Webhook-Id"}}
	case "github":
		o.preset.Scheme = signature.GitHub()
	case "stripe":
		o.preset.Scheme = signature.Stripe()
	}
	if o.kind != "" && o.kind != "hmac" {
		m.onlyTolerance(o.kind)
	}
	m.key("tolerance").duration(&o.preset.Scheme.Tolerance, 0, 24*time.Hour, time.Second,
		"whole seconds from 0 (no check) to 24h, such as 5m")
	if o.kind != "" && len(v.doc.problems) == before {
		o.sound = m.check(o.preset.Scheme)
	}
	return o
}

// hmac reads a scheme that the file describes.
func (m mapping) hmac() signature.Scheme {
	s := signature.Scheme{Algorithm: "sha256", Encoding: "hex"}
	if h := m.key("header"); !h.given() {
		h.wrong("missing: say which header has the signature")
	}
	m.key("header").header(&s.Header)
	m.key("algorithm").text(&s.Algorithm)
	m.key("encoding").text(&s.Encoding)
	m.key("prefix").anyText(&s.Prefix)
	m.key("prefix_optional").flag(&s.PrefixOptional)
	m.key("separator").anyText(&s.Separator)
	m.key("timestamp_header").header(&s.TimestampHeader)
	m.key("timestamp_field").text(&s.TimestampField)
	m.key("id_header").header(&s.IDHeader)
	m.key("key_encoding").anyText(&s.KeyEncoding)
	m.key("signed").template(&s.Signed)
	return s
}

var placeholders = strings.NewReplacer("{id}", ".", "{timestamp}", ".", "{body}", ".")

// template reads the text that is signed.
func (v value) template(to *string) {
	var s string
	if !v.text(&s) {
		return
	}
	if strings.ContainsAny(placeholders.Replace(s), "{}") {
		v.wrong("want a text with {body} in it, and if need be {id} and {timestamp}, and no other braces")
		return
	}
	*to = s
}

// onlyTolerance reports the keys that a scheme with a name does not take.
func (m mapping) onlyTolerance(scheme string) {
	for _, key := range m.keys {
		if key != "scheme" && key != "tolerance" {
			m.fields[key].wrong("the scheme %s says this itself: leave it out", scheme)
		}
	}
}

// check reports what is wrong with the scheme as a whole.
func (m mapping) check(s signature.Scheme) bool {
	_, err := s.Verifier([]string{dummy})
	if err == nil {
		return true
	}
	for message := range strings.SplitSeq(err.Error(), "\n") {
		at := m.value
		for _, key := range m.keys { // messages begin with the name of the field
			if strings.HasPrefix(message, strings.ReplaceAll(key, "_", " ")) {
				at.line = m.fields[key].line
			}
		}
		at.wrong("%s", unquote(message))
	}
	return false
}

// verifier reads the secrets of a source. It is nil if there is nothing to
// verify with.
func (m mapping) verifier(name string, how origin) *signature.Verifier {
	v := m.key("secrets")
	switch {
	case how.kind == "none" && v.given():
		v.wrong("would be ignored because of verify: none: leave one of the two out")
	case how.kind != "" && how.kind != "none" && !v.given():
		v.wrong(`missing: write secrets: ["${%[1]s}"] and set the environment variable %[1]s`, variableFor(name))
	}
	if how.kind == "none" || !v.given() {
		return nil
	}
	scheme := how.preset.Scheme
	if !how.sound {
		scheme = signature.Scheme{}
	}
	secrets, ok := v.secrets(scheme.KeyEncoding)
	if !ok || !how.sound {
		return nil
	}
	verifier, err := scheme.Verifier(secrets)
	if err != nil { // should have been found before
		v.wrong("%s", unquote(err.Error()))
	}
	return verifier
}

// variableFor proposes a variable for the secret of a source.
func variableFor(name string) string {
	name = strings.TrimLeft(name, "0123456789-_")
	if !source.ValidName(name) {
		return "WEBHOOK_SECRET"
	}
	return strings.ToUpper(strings.ReplaceAll(name, "-", "_")) + "_SECRET"
}

// secrets reads one secret or a list of them, of which at least one must be left.
func (v value) secrets(encoding string) ([]string, bool) {
	entries := []value{v}
	_, isText := v.raw()
	if _, isFile := v.isMapping(); !isText && !isFile {
		var ok bool
		if entries, ok = v.list("a list of texts, or of {file: /run/secrets/name}"); !ok {
			return nil, false
		}
	}
	var secrets []string
	before := len(v.doc.problems)
	for _, entry := range entries {
		if s, ok := entry.secret(encoding); ok {
			secrets = append(secrets, s)
		}
	}
	ok := len(v.doc.problems) == before
	if ok && len(secrets) == 0 {
		v.wrong("no secret is left: set one of the environment variables, or write a secret without :-")
		return nil, false
	}
	return secrets, ok
}

// secret reads one. If it was left out by ${NAME:-}, there is none.
func (v value) secret(encoding string) (string, bool) {
	s, ok := v.secretText()
	if !ok {
		return "", false
	}
	plain := signature.Scheme{Header: "X", Algorithm: "sha256", Encoding: "hex", KeyEncoding: encoding}
	if _, err := plain.Verifier([]string{s}); err != nil {
		v.wrong("%s", strings.TrimPrefix(unquote(err.Error()), "secret 1: "))
		return "", false
	}
	return s, true
}
