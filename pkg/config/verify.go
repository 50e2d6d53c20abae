package config

import (
	"strings"

	"github.com/goccy/go-yaml/ast"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// An origin is who posts to a source, and how that is checked.
type origin struct {
	kind   string // none, provider, or the scheme; "" if what the file says was reported
	preset source.Preset
	sound  bool // preset.Scheme makes sense
}

// origin reads the keys provider and verify of a source.
func (m mapping) origin() origin {
	provider, verify := m.key("provider"), m.key("verify")
	switch {
	case provider.given() && verify.given():
		verify.wrong("the provider already says how deliveries are signed: leave one of the two out")
		return origin{}
	case verify.given():
		for _, key := range optionKeys {
			if at := m.key(key); at.given() {
				at.wrong("write it into verify, beside scheme")
			}
		}
		return verify.verify()
	case !provider.given():
		m.wrong("neither provider nor verify: say verify: none if nobody signs")
		return origin{}
	}
	var name string
	if !provider.provider(&name) {
		return origin{}
	}
	o := origin{kind: "provider"}
	o.preset, _ = source.FindPreset(name)
	m.options(&o.preset.Scheme)
	o.sound = m.check(o.preset.Scheme)
	return o
}

const aVerify = "none, or a mapping such as {scheme: hmac, header: X-Signature}, or a list of them"

func (v value) verify() origin {
	if raw, ok := v.raw(); ok {
		if s, _, ok := v.expand(raw); ok && s != "none" {
			v.wrong("want %s", aVerify)
			return origin{}
		}
		return origin{kind: "none"}
	}
	entries := []value{v}
	if _, isList := v.node.(*ast.SequenceNode); isList {
		if entries, _ = v.list(aVerify); len(entries) == 0 {
			v.wrong("want %s", aVerify)
			return origin{}
		}
	}
	first := entries[0].scheme()
	for _, entry := range entries[1:] {
		other := entry.scheme()
		first.preset.Scheme.Or = append(first.preset.Scheme.Or, other.preset.Scheme)
		first.sound = first.sound && other.sound
	}
	return first
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
	secrets, ok := v.secrets(scheme)
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
func (v value) secrets(scheme signature.Scheme) ([]string, bool) {
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
		if s, ok := entry.secret(scheme); ok {
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
func (v value) secret(scheme signature.Scheme) (string, bool) {
	s, ok := v.secretText()
	if !ok {
		return "", false
	}
	if err := scheme.CheckSecret(s); err != nil {
		v.wrong("%s", unquote(err.Error()))
		return "", false
	}
	return s, true
}
