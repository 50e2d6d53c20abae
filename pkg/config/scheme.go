package config

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// kinds are the schemes that the file describes. Any other one has the name of
// a provider.
var kinds = map[string]signature.Scheme{
	"hmac":    {Algorithm: "sha256", Encoding: "hex"},
	"hash":    {Kind: signature.Hash, Algorithm: "sha256", Encoding: "hex"},
	"token":   {Kind: signature.Token},
	"basic":   {Kind: signature.Basic, Header: "Authorization"},
	"ed25519": {Kind: signature.Ed25519, Encoding: "hex"},
	"ecdsa":   {Kind: signature.ECDSA, Algorithm: "sha256", Encoding: "base64"},
	"rsa":     {Kind: signature.RSA, Algorithm: "sha256", Encoding: "base64"},
}

// schemes lists what the key scheme may be.
func schemes() []string {
	described := []string{"hmac", "hash", "token", "basic", "ed25519", "ecdsa", "rsa"}
	return append(described, source.Providers()...)
}

// scheme reads one scheme of the key verify.
func (v value) scheme() origin {
	m, ok := v.record(aVerify, "scheme", "header", "algorithm", "encoding", "prefix", "prefix_optional", "separator",
		"timestamp_header", "timestamp_field", "id_header", "signed", "tolerance", "key_encoding",
		"more_headers", "old_header", "signature_at", "items", "timestamp_at", "timestamp_unit", "body_unsigned",
		"webhook_id", "port_optional", "url_decoded", "url_body_hash", "public_prefix")
	if !ok {
		return origin{}
	}
	var o origin
	if s := m.key("scheme"); !s.given() {
		s.wrong("missing: want one of %s", strings.Join(schemes(), ", "))
	} else {
		s.choice(&o.kind, schemes()...)
	}
	before := len(v.doc.problems)
	if kind, described := kinds[o.kind]; described {
		o.preset.Scheme = m.described(kind)
	} else if o.kind != "" {
		preset, _ := source.FindPreset(o.kind)
		o.preset.Scheme = preset.Scheme
		if id := preset.Scheme.IDHeader; id != "" {
			o.preset.ID = []source.Locator{{Header: http.CanonicalHeaderKey(id)}}
		}
		m.onlyOptions(o.kind)
	}
	m.options(&o.preset.Scheme)
	if o.kind != "" && len(v.doc.problems) == before {
		o.sound = m.check(o.preset.Scheme)
	}
	return o
}

// described reads a scheme that the file describes.
func (m mapping) described(s signature.Scheme) signature.Scheme {
	if h := m.key("header"); !h.given() && s.Header == "" && !m.key("signature_at").given() {
		h.wrong("missing: say which header has the signature")
	}
	m.key("header").header(&s.Header)
	if more := m.key("more_headers"); more.given() {
		s.MoreHeaders = more.headers(nil)
	}
	m.key("old_header").header(&s.OldHeader)
	m.key("signature_at").text(&s.SignatureAt)
	m.key("items").text(&s.Items)
	m.key("algorithm").text(&s.Algorithm)
	m.key("encoding").text(&s.Encoding)
	m.key("prefix").anyText(&s.Prefix)
	m.key("prefix_optional").flag(&s.PrefixOptional)
	m.key("public_prefix").text(&s.PublicPrefix)
	m.key("separator").anyText(&s.Separator)
	m.key("timestamp_header").header(&s.TimestampHeader)
	m.key("timestamp_field").text(&s.TimestampField)
	m.key("timestamp_at").text(&s.TimestampAt)
	m.key("timestamp_unit").unit(&s.TimestampUnit)
	m.key("id_header").header(&s.IDHeader)
	m.key("key_encoding").anyText(&s.KeyEncoding)
	m.key("signed").text(&s.Signed)
	m.key("body_unsigned").flag(&s.BodyUnsigned)
	m.key("port_optional").flag(&s.PortOptional)
	m.key("url_decoded").text(&s.URLDecoded)
	m.key("url_body_hash").text(&s.URLBodyHash)
	return s
}

func (v value) unit(to *string) {
	if v.choice(to, "s", "ms", "rfc3339") && *to == "s" {
		*to = ""
	}
}

// optionKeys may stand beside the name of a provider.
var optionKeys = []string{"tolerance", "webhook_id"}

// options reads what a user may say of any scheme that has it.
func (m mapping) options(s *signature.Scheme) {
	const century = 100 * 365 * 24 * time.Hour
	var tolerance time.Duration
	if at := m.key("tolerance"); at.given() {
		before := len(at.doc.problems)
		at.duration(&tolerance, 0, century, time.Second, "whole seconds from 0 (no check) on, such as 5m")
		if len(at.doc.problems) == before && !s.SetTolerance(tolerance) && tolerance > 0 {
			at.wrong("no {timestamp} is signed that could be checked")
		}
	}
	m.key("webhook_id").text(&s.WebhookID)
}

// onlyOptions reports the keys that a scheme with a name does not take.
func (m mapping) onlyOptions(scheme string) {
	for _, key := range m.keys {
		if key != "scheme" && !slices.Contains(optionKeys, key) {
			m.fields[key].wrong("the scheme %s says this itself: leave it out", scheme)
		}
	}
}

// check reports what is wrong with the scheme as a whole.
func (m mapping) check(s signature.Scheme) bool {
	err := s.Check()
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
