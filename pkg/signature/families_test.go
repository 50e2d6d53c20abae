package signature_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// A family is one scheme of each kind of signing, with keys and a body for it.
type family struct {
	name           string
	scheme         signature.Scheme
	signer, secret string // the private half, and what a receiver has
	body           string
	form           bool
}

// allFamilies returns them, with new keys.
func allFamilies(tb testing.TB) []family {
	tb.Helper()
	schemes := families(5 * time.Minute)
	schemes["standard"] = signature.StandardWebhooks("webhook")
	schemes["standard public"] = signature.StandardWebhooks("webhook")
	schemes["v3"] = signature.Scheme{Header: "X-Sig", Algorithm: "sha256", Encoding: "base64", TimestampHeader: "X-Time", TimestampUnit: "ms",
		Signed: "{method}{url}{body}{timestamp}", URLDecoded: ":/?@!$'()*,;", Tolerance: time.Minute}
	schemes["late"] = signature.Scheme{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex", TimestampAt: "/at", TimestampUnit: "ms", Tolerance: time.Minute}
	schemes["crc"] = signature.Scheme{Kind: signature.RSA, Header: "X-Sig", Algorithm: "sha256", Encoding: "base64", TimestampHeader: "X-Time",
		TimestampUnit: "rfc3339", Signed: "{header:X-Id}|{timestamp}|{webhook_id}|{crc32}|{sha256}", WebhookID: "WH-1", Tolerance: time.Minute}
	schemes["numbered"] = signature.Scheme{Header: "X-Sig-1", MoreHeaders: []string{"X-Sig-2", "X-Sig-3"}, Algorithm: "sha256", Encoding: "base64"}
	schemes["bearer"] = signature.Scheme{Kind: signature.Token, Header: "Authorization", Prefix: "Bearer "}
	schemes["basic"] = signature.Scheme{Kind: signature.Basic, Header: "Authorization"}
	var all []family
	for _, name := range slices.Sorted(maps.Keys(schemes)) {
		f := family{name: name, scheme: schemes[name], signer: "s3cret", body: `{"id":"e","items":[1]}`}
		switch {
		case name == "adyen":
			f.body = `{"notificationItems":[{"NotificationRequestItem":{"pspReference":"p","amount":{"value":1}}},{"NotificationRequestItem":{"pspReference":"q"}}]}`
			f.signer = "00ff"
		case name == "mailgun" || name == "twilio":
			f.body, f.form = "token=x&b=%2B1&a=&b=2", true
		case name == "basic":
			f.signer = "user:s3cret"
		case name == "standard":
			f.signer = whsec
		case name == "standard public":
			_, private, err := ed25519.GenerateKey(rand.Reader)
			if err != nil {
				tb.Fatal(err)
			}
			f.signer = "whsk_" + base64.StdEncoding.EncodeToString(private)
			f.secret = "whpk_" + base64.StdEncoding.EncodeToString(private[32:])
		case f.scheme.Kind == signature.Ed25519 || f.scheme.Kind == signature.ECDSA || f.scheme.Kind == signature.RSA:
			f.signer, f.secret = newKeys(tb, f.scheme.Kind)
		}
		if f.secret == "" {
			f.secret = f.signer
		}
		all = append(all, f)
	}
	return all
}

// newKeys returns a private and its public key in PEM.
func newKeys(tb testing.TB, kind signature.Kind) (private, public string) {
	tb.Helper()
	switch kind {
	case signature.Ed25519:
		_, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			tb.Fatal(err)
		}
		return encoded(tb, k, k.Public())
	case signature.RSA:
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			tb.Fatal(err)
		}
		return encoded(tb, k, k.Public())
	}
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatal(err)
	}
	return encoded(tb, k, k.Public())
}

func encoded(tb testing.TB, private, public any) (privatePEM, publicPEM string) {
	tb.Helper()
	a, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := x509.MarshalPKIXPublicKey(public)
	if err != nil {
		tb.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: a})), string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: b}))
}

// signed returns what the provider sends, and a verifier that has only what a
// receiver has.
func (f family) signed(tb testing.TB, body []byte) (signature.Request, *signature.Verifier) {
	tb.Helper()
	signer, err := f.scheme.Signer(f.signer)
	if err != nil {
		tb.Fatalf("%s: Signer = %v", f.name, err)
	}
	r := signature.Request{Method: "POST", URL: "https://a.example/hook?q=%3A1", Header: http.Header{}, Body: body}
	if f.form {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if r, err = signer.Sign(r, "id_1", noon); err != nil {
		tb.Skipf("%s: %v", f.name, err)
	}
	return r, mustVerifier(tb, f.scheme, f.secret)
}

func TestFamilies(t *testing.T) {
	for _, f := range allFamilies(t) {
		t.Run(f.name, func(t *testing.T) {
			r, v := f.signed(t, []byte(f.body))
			if err := v.Verify(r, noon); err != nil {
				t.Fatalf("Verify of what was signed = %v; %q %s", err, r.Header, r.Body)
			}
			if f.scheme.Tolerance > 0 && v.Verify(r, noon.Add(time.Hour)) == nil {
				t.Error("Verify an hour later = nil")
			}
			if f.scheme.Signed != "" && strings.Contains(f.scheme.Signed, "{url}") {
				other := r
				other.URL = ""
				if got := reason(t, v.Verify(other, noon)); got != signature.UnknownURL {
					t.Errorf("Verify without the URL = %q, want %q", got, signature.UnknownURL)
				}
				other.URL = strings.Replace(r.URL, "hook", "other", 1)
				if got := reason(t, v.Verify(other, noon)); got != signature.NoMatch {
					t.Errorf("Verify with another URL = %q, want %q", got, signature.NoMatch)
				}
			}
			if f.scheme.SignatureAt != "" {
				return
			}
			bare := r
			bare.Header = http.Header{}
			if got := reason(t, v.Verify(bare, noon)); got != signature.MissingHeader {
				t.Errorf("Verify without headers = %q, want %q", got, signature.MissingHeader)
			}
			if _, isPublic := strings.CutPrefix(f.secret, "whpk_"); isPublic || strings.Contains(f.secret, "PUBLIC") {
				if _, err := v.Sign(r, "", noon); err == nil {
					t.Error("Sign with a public key = nil error")
				}
				if err := f.scheme.CheckSecret(f.signer); err == nil || !strings.Contains(err.Error(), "private key") {
					t.Errorf("CheckSecret of the private key = %v", err)
				}
			}
		})
	}
}

// Each way in which providers show a public key.
func TestPublicKeyForms(t *testing.T) {
	public, _, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	_, text := newKeys(t, signature.ECDSA)
	block, _ := pem.Decode([]byte(text))
	ed := signature.Scheme{Kind: signature.Ed25519}
	ec := signature.Scheme{Kind: signature.ECDSA}
	tests := []struct {
		name   string
		scheme signature.Scheme
		secret string
		good   bool
	}{
		{"hex", ed, hex.EncodeToString(public), true},
		{"base64", ed, base64.StdEncoding.EncodeToString(public), true},
		{"31 bytes", ed, hex.EncodeToString(public[1:]), false},
		{"PEM", ec, text, true},
		{`PEM with \n`, ec, strings.ReplaceAll(strings.TrimSpace(text), "\n", `\n`), true},
		{"base64 of DER", ec, base64.StdEncoding.EncodeToString(block.Bytes), true},
		{"of another kind", ed, text, false},
		{"something", ec, "s3cret", false},
		{"PEM and something", ec, text + "more", false},
		{"empty", ec, "", false},
	}
	for _, tt := range tests {
		if err := tt.scheme.CheckSecret(tt.secret); (err == nil) != tt.good {
			t.Errorf("%s: CheckSecret = %v, want good: %t", tt.name, err, tt.good)
		}
	}
}

// A timestamp a thousand times off is refused, never scaled.
func TestTimestampUnits(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	texts := map[string]string{"": "1700000000", "ms": "1700000000000", "rfc3339": "2023-11-14T22:13:20Z", "µs": "1700000000000000"}
	for _, unit := range []string{"", "ms", "rfc3339"} {
		for is, text := range texts {
			s := signature.Scheme{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex", TimestampHeader: "X-Time", TimestampUnit: unit, Signed: "{timestamp}{body}", Tolerance: time.Minute}
			plain := signature.Scheme{Header: "X-Sig", Algorithm: "sha256", Encoding: "hex"}
			h := sign(t, mustVerifier(t, plain, "s3cret"), "", []byte(text+"x"), now)
			h.Set("X-Time", text)
			want := signature.MalformedTimestamp
			if is == unit {
				want = ""
			}
			if got := reason(t, mustVerifier(t, s, "s3cret").Verify(request(h, []byte("x")), now)); got != want {
				t.Errorf("unit %q with %s = %q, want %q", unit, text, got, want)
			}
		}
	}
}

func TestNumberedHeaders(t *testing.T) {
	s := signature.Scheme{Header: "X-Sig-1", MoreHeaders: []string{"X-Sig-2"}, Algorithm: "sha256", Encoding: "base64"}
	v := mustVerifier(t, s, "new", "old")
	h := sign(t, mustVerifier(t, s, "old"), "", []byte("x"), noon)
	for name, headers := range map[string]http.Header{
		"first":        h,
		"second":       {"X-Sig-2": h["X-Sig-1"]},
		"after a bad":  {"X-Sig-1": {"???"}, "X-Sig-2": h["X-Sig-1"]},
		"before a bad": {"X-Sig-1": h["X-Sig-1"], "X-Sig-2": {""}},
	} {
		if secret, err := v.Match(request(headers, []byte("x")), noon); secret != 1 || err != nil {
			t.Errorf("%s: Match = %d, %v, want 1", name, secret, err)
		}
	}
}

// What is signed never verifies with one bit changed, and no input panics.
func FuzzFamilies(f *testing.F) {
	all := allFamilies(f)
	for i, one := range all {
		f.Add(uint8(i), []byte(one.body), uint16(3), "")
	}
	f.Fuzz(func(t *testing.T, n uint8, body []byte, at uint16, value string) {
		one := all[int(n)%len(all)]
		r, v := one.signed(t, body)
		err := v.Verify(r, noon)
		if err != nil {
			t.Fatalf("%s: Verify of what was signed = %v; %q %q", one.name, err, r.Header, r.Body)
		}
		if !one.scheme.BodyUnsigned && one.scheme.Kind != signature.Token && one.scheme.Kind != signature.Basic && !one.form && len(r.Body) > 0 {
			other := r
			other.Body = bytes.Clone(r.Body)
			other.Body[int(at)%len(other.Body)] ^= 1 << (at % 8)
			if v.Verify(other, noon) == nil {
				t.Errorf("%s: Verify of %q = nil, but %q was signed", one.name, other.Body, r.Body)
			}
		}
		for name := range r.Header { // whatever a stranger sends
			r.Header[name] = []string{value}
		}
		if name := one.scheme.Header; name != "" && v.Verify(r, noon) == nil && !strings.Contains(value, one.signer) && one.name != "basic" {
			t.Errorf("%s: Verify with %q = nil", one.name, value)
		}
		_ = v.Advice(r, noon)
	})
}
