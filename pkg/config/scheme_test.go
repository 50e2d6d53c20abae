package config_test

import (
	"strings"
	"testing"
)

// ed25519Key is a public key, and so no secret.
const ed25519Key = "79b5562e8fe654f94078b112e8a98ba7901f853ae695bed7e0e3910bad049664"

// withVerify is a file with one source that is verified so.
func withVerify(verify, secret string) string {
	return one("a", "verify: "+verify, "secrets: '"+secret+"'", "id: {json: /id}", "type: {json: /type}")
}

// Each kind of scheme can be said in the file.
func TestSchemes(t *testing.T) {
	for _, tt := range []struct{ verify, secret string }{
		{`{scheme: hmac, header: X-Sig, algorithm: sha512, encoding: base64, prefix: "v1=", separator: ",", timestamp_field: t, signed: "{timestamp},{body}", tolerance: 876000h}`, "x"},
		{`{scheme: hmac, header: X-Sig, prefix: "sha1=", prefix_optional: true, algorithm: sha1, separator: ","}`, "x"},
		{`{scheme: hmac, header: X-Sig-1, more_headers: [X-Sig-2, X-Sig-3], old_header: X-Old, encoding: base64, key_encoding: hex}`, "00ff"},
		{`{scheme: hmac, header: X-Sig, timestamp_header: X-Time, timestamp_unit: ms, signed: "{timestamp}\n{secret}", body_unsigned: true}`, "x"},
		{`{scheme: hmac, header: X-Sig, timestamp_header: X-Time, timestamp_unit: rfc3339, signed: "{timestamp}{body}", tolerance: 5m}`, "x"},
		{`{scheme: hmac, header: X-Sig, timestamp_at: /at, timestamp_unit: s, tolerance: 1m}`, "x"},
		{`{scheme: hmac, header: X-Sig, algorithm: sha1, encoding: base64, signed: "{url}{form}", port_optional: true, url_body_hash: bodySHA256}`, "x"},
		{`{scheme: hmac, header: X-Sig, signed: "{method}{url}{body}", url_decoded: ":/"}`, "x"},
		{`{scheme: hmac, signature_at: /signature/signature, timestamp_at: /signature/timestamp, signed: "{timestamp}{/signature/token}", body_unsigned: true}`, "x"},
		{`{scheme: hmac, items: /items, signature_at: /sig, signed: "{/a}:{/b~1c}", body_unsigned: true, encoding: base64, key_encoding: hex}`, "00ff"},
		{`{scheme: hmac, header: X-Sig, prefix: "v1,", public_prefix: "v1a,", separator: " ", encoding: base64, id_header: X-Id, signed: "{id}.{body}"}`, "x"},
		{`{scheme: hash, header: X-Sig, signed: "{secret}{method}{url}{body}"}`, "x"},
		{`{scheme: token, header: X-Token}`, "x"},
		{`{scheme: token, header: Authorization, prefix: "Bearer "}`, "x"},
		{`{scheme: basic}`, "user:x"},
		{`{scheme: ed25519, header: X-Sig, timestamp_header: X-Time, signed: "{timestamp}{body}"}`, ed25519Key},
		{`{scheme: slack, tolerance: 10m}`, "x"},
		{`{scheme: standard-webhooks}`, "whsec_c2VjcmV0"},
		{`[{scheme: hmac, header: X-New}, {scheme: hmac, header: X-Older, algorithm: sha512}]`, "x"},
	} {
		sources, err := parse(withVerify(tt.verify, tt.secret))
		if err != nil || sources[0].Verifier == nil {
			t.Errorf("%s: %v", tt.verify, err)
		}
	}
}

// What makes no sense is refused with the line of the key that is to blame.
func TestSchemeRefusals(t *testing.T) {
	for _, tt := range []struct{ verify, secret, want string }{
		{`{scheme: hmac, header: X, signed: "{url}"}`, "x", "signed: without {body} anybody could change the body: say body_unsigned if that is so"},
		{`{scheme: hmac, header: X, signed: "{uri}{body}"}`, "x", "signed: is nothing that can be signed: want {body}, {id}"},
		{`{scheme: hmac, header: X, body_unsigned: true}`, "x", "body unsigned: but"},
		{`{scheme: hmac, header: X, timestamp_unit: µs}`, "x", "timestamp_unit: want one of s, ms, rfc3339"},
		{`{scheme: hmac, header: X, more_headers: [a b]}`, "x", "is not the name of a header"},
		{`{scheme: hmac, header: X, tolerance: 5m}`, "x", "tolerance: no {timestamp} is signed that could be checked"},
		{`{scheme: hmac, header: X, signed: "{webhook_id}{body}"}`, "x", "webhook id: missing"},
		{`{scheme: hash, header: X}`, "x", "a hash without {secret} proves nothing"},
		{`{scheme: token, header: X, signed: "{body}"}`, "x", "signs nothing"},
		{`{scheme: basic}`, "x", "want user:password"},
		{`{scheme: ed25519, header: X}`, "x", "cannot be decoded as a key"},
		{`{scheme: rsa, header: X, key_encoding: hex}`, "x", "key encoding: a public key tells its own"},
		{`{scheme: slack, header: X}`, "x", "the scheme slack says this itself"},
		{`[]`, "x", "want none, or a mapping"},
		{`[{scheme: hmac, header: X}, {scheme: hmac}]`, "x", "verify: entry 2: header: missing"},
	} {
		_, err := parse(withVerify(tt.verify, tt.secret))
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "hookonce.yaml:") {
			t.Errorf("%s: got %v, want %q", tt.verify, err, tt.want)
		}
	}
	for option, want := range map[string]string{
		"tolerance: 5m":   "tolerance: no {timestamp} is signed", // GitHub has none
		"webhook_id: x":   "webhook id: is not signed",
		"tolerance: soon": "tolerance: want whole seconds",
	} {
		if _, err := parse(one("a", "provider: github", option, "secrets: x")); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("provider: github with %s: got %v, want %q", option, err, want)
		}
	}
	if _, err := parse(one("a", "provider: slack", "tolerance: 10m", "secrets: x")); err != nil {
		t.Errorf("provider: slack with a tolerance: %v", err)
	}
}
