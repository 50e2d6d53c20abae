package signature_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

// The schemes that are fuzzed, chosen by number. The last one is the most lenient.
var fuzzed = []signature.Scheme{
	signature.GitHub(),
	signature.Stripe(),
	signature.StandardWebhooks("webhook"),
	{Header: "X-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256=", PrefixOptional: true, Separator: ","},
}

var stripeTime = regexp.MustCompile(`(?:^|,)t=([0-9]+)(?:,|$)`)

// signedText says, without the package's help, which text a delivery claims
// to be signed; ok is false if it claims none.
func signedText(which int, value string, body []byte) (text string, ok bool) {
	switch which {
	case 1:
		t := stripeTime.FindStringSubmatch(value)
		if t == nil {
			return "", false
		}
		return t[1] + "." + string(body), true
	case 2:
		return fmt.Sprintf("msg_1.%d.%s", noon.Unix(), body), true
	}
	return string(body), true
}

// No input may panic, and nobody gets in without a signature that only a
// holder of the secret can have made.
func FuzzVerify(f *testing.F) {
	const key = "s3cret"
	secret := base64.StdEncoding.EncodeToString([]byte(key))
	var verifiers []*signature.Verifier
	for i, scheme := range fuzzed {
		v := mustVerifier(f, scheme, map[bool]string{true: secret, false: key}[scheme.KeyEncoding == "whsec"])
		verifiers = append(verifiers, v)
		for _, body := range []string{"", "{}"} {
			f.Add(sign(f, v, "msg_1", []byte(body), noon).Get(scheme.Header), []byte(body), uint8(i))
		}
	}
	f.Add("t=1,v1=00", []byte("{}"), uint8(1))
	f.Add("v1,AAAA v2,A v1,", []byte("{}"), uint8(2))
	f.Add("sha256=00,,00,sha256=", []byte("{}"), uint8(3))
	f.Fuzz(func(t *testing.T, value string, body []byte, n uint8) {
		which := int(n) % len(fuzzed)
		scheme := fuzzed[which]
		h := sign(t, verifiers[which], "msg_1", nil, noon)
		h.Set(scheme.Header, value)
		if reason(t, verifiers[which].Verify(request(h, body), noon)) != "" {
			return
		}
		text, ok := signedText(which, value, body)
		mac := hmac.New(sha256.New, []byte(key))
		mac.Write([]byte(text))
		sum := mac.Sum(nil)
		if scheme.Encoding == "hex" {
			ok = ok && strings.Contains(strings.ToLower(value), hex.EncodeToString(sum))
		} else {
			ok = ok && strings.Contains(value, base64.StdEncoding.EncodeToString(sum))
		}
		if !ok {
			t.Errorf("Verify(%s: %q, %q) = nil, but nobody signed that", scheme.Header, value, body)
		}
	})
}

// What we sign verifies; with one bit changed in the body, or one character of
// the signature, it never does.
func FuzzSignVerify(f *testing.F) {
	for i := range fuzzed {
		f.Add(uint8(i), "s3cret", "msg_1", []byte(`{"n":1}`), uint16(3))
	}
	f.Fuzz(func(t *testing.T, n uint8, secret, id string, body []byte, at uint16) {
		scheme := fuzzed[int(n)%len(fuzzed)]
		if scheme.KeyEncoding == "whsec" {
			secret = base64.StdEncoding.EncodeToString([]byte(secret))
		}
		v, err := scheme.Verifier([]string{secret})
		if err != nil || id == "" || len(id) > 4<<10 {
			t.Skip("no such secret or id")
		}
		h := sign(t, v, id, body, noon)
		if err := v.Verify(request(h, body), noon); err != nil {
			t.Fatalf("Verify(Sign(%q, %q)) = %v, want nil", id, body, err)
		}
		for _, other := range spoiled(body, at) {
			if v.Verify(request(h, other), noon) == nil {
				t.Errorf("Verify of %q = nil, but %q was signed", other, body)
			}
		}
		spoilSignature(h, scheme, at)
		if v.Verify(request(h, body), noon) == nil {
			t.Errorf("Verify(%q) = nil, but the signature was changed", h)
		}
	})
}

// spoiled returns bodies that differ from body by very little.
func spoiled(body []byte, at uint16) [][]byte {
	bodies := [][]byte{append(bytes.Clone(body), 0), append([]byte{' '}, body...)}
	if len(body) > 0 {
		flipped := bytes.Clone(body)
		flipped[int(at)%len(body)] ^= 1 << (at % 8)
		bodies = append(bodies, flipped, body[1:])
	}
	return slices.DeleteFunc(bodies, func(b []byte) bool { return bytes.Equal(b, body) })
}

// spoilSignature replaces one character of the signature by another one of the
// alphabet that means something else.
func spoilSignature(h http.Header, scheme signature.Scheme, at uint16) {
	value := []byte(h.Get(scheme.Header))
	from := bytes.LastIndexByte(bytes.TrimRight(value, "="), scheme.Prefix[len(scheme.Prefix)-1]) + 1
	i := from + int(at)%(len(value)-from)
	old := value[i]
	value[i] = strconv.Itoa(int(at) % 10)[0]
	if value[i] == old {
		value[i] = 'a'
	}
	h.Set(scheme.Header, string(value))
}
