package main

import (
	"compress/gzip"
	"crypto/hmac"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"hash"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// mac computes an HMAC without the help of pkg/signature.
func mac(newHash func() hash.Hash, key, text string) []byte {
	m := hmac.New(newHash, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

func hexMAC(key, text string) string { return hex.EncodeToString(mac(sha256.New, key, text)) }

const shopKey = "sho" + marker // of the sources below

// verifySources has a source of each kind that the cases below need.
const verifySources = `
sources:
  shop:
    verify: {scheme: hmac, header: X-Signature, prefix: "sha256="}
    secrets: ["another-` + marker + `", "${SHOP_SECRET}"]
    id: {json: /id}
    type: {json: /type}
  timed:
    verify: {scheme: hmac, header: X-Signature, timestamp_header: X-Time, signed: "{timestamp}.{body}", tolerance: 5m}
    secrets: "${SHOP_SECRET}"
    id: {json: /id}
    type: {json: /type}
  urls:
    verify: {scheme: hmac, header: X-Signature, encoding: base64, signed: "{method}{url}{body}"}
    secrets: "${SHOP_SECRET}"
    id: {json: /id}
    type: {json: /type}
  std:
    provider: standard-webhooks
    secrets: "whsec_` + "aHVudGVyMmh1bnRlcjJodW50ZXIy" + `"
  token:
    verify: {scheme: token, header: Authorization, prefix: "Bearer "}
    secrets: "${SHOP_SECRET}"
    id: {json: /id}
    type: {json: /type}
  zipped:
    verify: {scheme: hmac, header: X-Signature}
    secrets: "${SHOP_SECRET}"
    id: {json: /id}
    type: {json: /type}
    gzip: plain
    max_body: 64
  open:
    verify: none
    id: {json: /id}
    type: {json: /type}
`

// A written is a delivery in two files.
type written struct{ headers, body string }

// verified runs hookonce verify and returns what it exits with and prints.
func verified(t *testing.T, w written, args ...string) (status int, out string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	environ := []string{"HOOKONCE_CONFIG=" + file("hookonce.yaml", verifySources), "SHOP_SECRET=" + shopKey, "PADDED=" + shopKey + "\n"}
	args = append([]string{"verify", "--headers", file("headers", w.headers), "--body", file("body", w.body)}, args...)
	out, _, err := call(t, environ, args...)
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.status, out + err.Error()
	}
	if err != nil {
		t.Fatalf("hookonce %q = %v, without a status", args, err)
	}
	return 0, out
}

func TestVerify(t *testing.T) {
	t.Parallel()
	const body = `{"id":"e","type":"x"}`
	sig := "X-Signature: sha256=" + hexMAC(shopKey, body)
	timed := func(at, key, text string) string { return "X-Time: " + at + "\nX-Signature: " + hexMAC(key, text) }
	url := func(text string) string {
		return "X-Signature: " + base64.StdEncoding.EncodeToString(mac(sha256.New, shopKey, text))
	}
	std := func(key string) string {
		return "webhook-id: m\nwebhook-timestamp: 1000\nwebhook-signature: v1," + base64.StdEncoding.EncodeToString(mac(sha256.New, key, "m.1000."+body))
	}
	tests := []struct {
		name   string
		w      written
		args   string
		status int
		want   string // part of what is printed
	}{
		{"valid", written{sig, body}, "--source shop", 0, "valid: signed with secret 2"},
		{"CR LF, other case, spaces", written{strings.ReplaceAll(sig, "X-Signature: ", "x-SIGNATURE:  ") + " \r\n\r\n", body}, "--source shop", 0, "valid"},
		{"a request line", written{"POST /x HTTP/1.1\r\n" + sig + "\r\n", body}, "--source shop", 0, "valid"},
		{"as JSON", written{sig, body}, "--source shop -o json", 0, `{"valid":true,"secret":2}`},
		{"not valid as JSON", written{sig, "x"}, "--source shop -o json", 1, `{"valid":false,"reason":"no_match","where":"X-Signature","advice":["no secret made`},
		{"a provider", written{"X-Hub-Signature-256: sha256=" + hexMAC(shopKey, body), body}, "--provider github --secret-env SHOP_SECRET", 0, "valid"},
		{"as old as allowed", written{timed("1000", shopKey, "1000."+body), body}, "--source timed --now 1300", 0, "valid"},
		{"other tolerance", written{std("hunter2hunter2hunter2"), body}, "--provider standard-webhooks --secret-env SHOP_SECRET --tolerance 1h", 2, "whsec"},
		{"with the URL", written{url("POSThttps://a.example/x" + body), body}, "--source urls --url https://a.example/x", 0, "valid"},
		{"with the method", written{url("PUThttps://a.example/x" + body), body}, "--source urls --url https://a.example/x --method PUT", 0, "valid"},

		{"header twice", written{sig + "\n" + sig, body}, "--source shop", 1, "repeated_header"},
		{"no header", written{"", body}, "--source shop", 1, "missing_header (X-Signature)"},
		{"too old", written{timed("1000", shopKey, "1000."+body), body}, "--source timed --now 1301", 1, "too_old (X-Time)"},
		{"in the future", written{timed("1000", shopKey, "1000."+body), body}, "--source timed --now 699", 1, "in_future (X-Time)"},
		{"another secret", written{"X-Signature: sha256=" + hexMAC("x", body), body}, "--source shop", 1, "is it the secret of this very endpoint"},

		{"newline at the body's end", written{sig, body + "\n"}, "--source shop", 1, "right over the body without the newline at its end"},
		{"newline cut off the body", written{"X-Signature: sha256=" + hexMAC(shopKey, body+"\n"), body}, "--source shop", 1, "right over the body with a newline at its end"},
		{"re-encoded", written{sig, `{"id": "e", "type": "x"}`}, "--source shop", 1, "body_altered (X-Signature)\n- the signature is right, but the body"},
		{"newline in the sender's secret", written{"X-Signature: sha256=" + hexMAC(shopKey+"\n", body), body}, "--source shop", 1, "right with secret 2 and a newline after it"},
		{"newline in our secret", written{sig, body}, "--provider github --secret-env PADDED", 2, "was it pasted with a newline?"},
		{"milliseconds", written{timed("1700000000000", shopKey, "1700000000000."+body), body}, "--source timed", 1, "the timestamp is in milliseconds, and the scheme has it in seconds"},
		{"http behind a proxy", written{url("POSThttps://a.example/x" + body), body}, "--source urls --url http://a.example/x", 1, "right with the URL with https in the place of http"},
		{"port behind a proxy", written{url("POSThttps://a.example/x" + body), body}, "--source urls --url https://a.example:8443/x", 1, "right with the URL with another port"},
		{"another header", written{"X-Shop: sha256=" + hexMAC(shopKey, body) + "\nX-Signature: sha256=00", body}, "--source shop", 1, "the right signature is in X-Shop"},
		{"SHA-1", written{"X-Signature: sha1=" + hex.EncodeToString(mac(sha1.New, shopKey, body)), body}, "--source shop", 1, "right with SHA1: set algorithm"},
		{"base64", written{url(body)[:13] + "sha256=" + url(body)[13:], body}, "--source shop", 1, "the right signature is there, but in base64"},
		{"no prefix", written{"X-Signature: " + hexMAC(shopKey, body), body}, "--source shop", 1, `the right signature is there, but not after "sha256="`},
		{"the whole text of whsec_", written{std("whsec_aHVudGVyMmh1bnRlcjJodW50ZXIy"), body}, "--source std --now 1000", 1, "right with secret 1 as its whole text"},
		{"only the body signed", written{"X-Time: 1000\nX-Signature: " + hexMAC(shopKey, body), body}, "--source timed --now 1000", 1, "right over {body}: set signed"},
		{"token in another header", written{"X-Token: " + shopKey, body}, "--source token", 1, "secret 1 is in the header X-Token"},
		{"token without Bearer", written{"Authorization: " + shopKey, body}, "--source token", 1, "with something around it"},

		{"no URL", written{url(body), body}, "--source urls", 2, "unknown_url"},
		{"nobody signs", written{sig, body}, "--source open", 2, "verify: none"},
		{"no such source", written{sig, body}, "--source nope", 2, "no source nope"},
		{"no such provider", written{sig, body}, "--provider nope --secret-env SHOP_SECRET", 2, "no provider"},
		{"no secret", written{sig, body}, "--provider github", 2, "--secret-env"},
		{"secret not set", written{sig, body}, "--provider github --secret-env NOPE", 2, "NOPE is not set"},
		{"both", written{sig, body}, "--provider github --source shop --secret-env SHOP_SECRET", 2, "one of the two"},
		{"bad time", written{sig, body}, "--source shop --now noon", 2, "--now"},
		{"bad headers", written{"X-Signature\n", body}, "--source shop", 2, "line 1 is not"},
		{"unknown flag", written{sig, body}, "--nope", 2, "unknown flag"},
		{"unknown argument", written{sig, body}, "nope", 2, "unknown argument"},
		{"no such file", written{sig, body}, "--source shop --body /nope", 2, "--body: open /nope"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			status, out := verified(t, tt.w, strings.Fields(tt.args)...)
			if status != tt.status || !strings.Contains(out, tt.want) {
				t.Errorf("hookonce verify %s exits with %d, want %d and %q; it printed\n%s", tt.args, status, tt.status, tt.want, out)
			}
		})
	}
}

func TestParseHeaders(t *testing.T) {
	t.Parallel()
	h, err := parseHeaders([]byte("x-a: 1\r\nX-A:2\nX-Empty:\nX-Colon: a:b\n\n"))
	if err != nil || strings.Join(h["X-A"], "|") != "1|2" || h.Get("X-Colon") != "a:b" || len(h[http.CanonicalHeaderKey("x-empty")]) != 1 {
		t.Errorf("parseHeaders = %q, %v", h, err)
	}
	for _, text := range []string{"x", ": a", "a b: c", "ok: 1\n folded"} {
		if h, err := parseHeaders([]byte(text)); err == nil {
			t.Errorf("parseHeaders(%q) = %q, want an error", text, h)
		}
	}
}

// What a provider signed before it compressed it is checked as ingest does,
// within the same bound.
func TestVerifyGzip(t *testing.T) {
	t.Parallel()
	const body = `{"id":"e","type":"x"}`
	zip := func(text string) string {
		var b strings.Builder
		w := gzip.NewWriter(&b)
		w.Write([]byte(text))
		w.Close()
		return b.String()
	}
	large := strings.Repeat("x", 65)
	for _, row := range []struct {
		name, sent, signed string
		status             int
	}{
		{"compressed", zip(body), body, 0},
		{"saved plain", body, body, 0},
		{"another", zip(body), "{}", 1},
		{"larger than max_body", zip(large), large, 2},
		{"cut off", zip(body)[:20], body, 2},
	} {
		for _, encoding := range []string{"gzip", "x-gzip"} {
			head := "Content-Encoding: " + encoding + "\nX-Signature: " + hexMAC(shopKey, row.signed)
			if status, out := verified(t, written{head, row.sent}, "--source", "zipped"); status != row.status {
				t.Errorf("%s, %s: exit %d, want %d:\n%s", row.name, encoding, status, row.status, out)
			}
		}
	}
}
