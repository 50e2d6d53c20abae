package signature_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

func TestSchemeErrors(t *testing.T) {
	// Each case starts from a valid scheme and spoils one thing.
	tests := []struct {
		name  string
		spoil func(s *signature.Scheme)
		want  string // part of the error; "" for none
	}{
		{"valid", func(s *signature.Scheme) {}, ""},
		{"without the check of the time", func(s *signature.Scheme) { s.Tolerance = 0 }, ""},
		{"sha512", func(s *signature.Scheme) { s.Algorithm = "sha512" }, ""},
		{"literals", func(s *signature.Scheme) { s.Signed = "v0:{timestamp}:{id}:{body}:" }, ""},
		{"no algorithm", func(s *signature.Scheme) { s.Algorithm = "" }, `algorithm ""`},
		{"unknown algorithm", func(s *signature.Scheme) { s.Algorithm = "md5" }, `algorithm "md5"`},
		{"unknown encoding", func(s *signature.Scheme) { s.Encoding = "base32" }, `encoding "base32"`},
		{"unknown key encoding", func(s *signature.Scheme) { s.KeyEncoding = "pem" }, `key encoding "pem"`},
		{"no header", func(s *signature.Scheme) { s.Header = "" }, `header ""`},
		{"bad header", func(s *signature.Scheme) { s.Header = "X Signature" }, `header "X Signature"`},
		{"bad timestamp header", func(s *signature.Scheme) { s.TimestampHeader = "é" }, `timestamp header "é"`},
		{"bad id header", func(s *signature.Scheme) { s.IDHeader = "a:b" }, `id header "a:b"`},
		{"header for two things", func(s *signature.Scheme) { s.TimestampHeader = "webhook-Signature" }, "is the signature's too"},
		{"id header for two things", func(s *signature.Scheme) { s.IDHeader = "Webhook-timestamp" }, "the timestamp's too"},
		{"unknown placeholder", func(s *signature.Scheme) { s.Signed = "{id}{timestamp}{body}{uri}" }, `"{uri}" is nothing that can be signed`},
		{"empty placeholder", func(s *signature.Scheme) { s.Signed = "{id}{timestamp}{body}{}" }, `"{}" is nothing that can be signed`},
		{"open brace", func(s *signature.Scheme) { s.Signed = "{id}{timestamp}{body}{" }, "{ without }"},
		{"close brace", func(s *signature.Scheme) { s.Signed = "}{id}{timestamp}{body}" }, "} without {"},
		{"no body", func(s *signature.Scheme) { s.Signed = "{id}.{timestamp}" }, "without {body}"},
		{"timestamp from nowhere", func(s *signature.Scheme) { s.TimestampHeader = "" }, "neither a field nor a header"},
		{"timestamp from two places", func(s *signature.Scheme) { s.TimestampField = "t" }, "not both"},
		{"timestamp not signed", func(s *signature.Scheme) { s.Signed, s.Tolerance = "{id}.{body}", 0 }, "{timestamp} is not signed"},
		{"tolerance of nothing", func(s *signature.Scheme) { s.Signed, s.TimestampHeader = "{id}.{body}", "" }, "tolerance 5m0s: no {timestamp}"},
		{"negative tolerance", func(s *signature.Scheme) { s.Tolerance = -time.Second }, "tolerance -1s"},
		{"tolerance in part of a second", func(s *signature.Scheme) { s.Tolerance = 1500 * time.Millisecond }, "tolerance 1.5s"},
		{"id from nowhere", func(s *signature.Scheme) { s.IDHeader = "" }, "no header has it"},
		{"id not signed", func(s *signature.Scheme) { s.Signed = "{timestamp}.{body}" }, "{id} is not signed"},
		{"separator in the prefix", func(s *signature.Scheme) { s.Separator = "," }, "contains the separator"},
		{"separator in base64", func(s *signature.Scheme) { s.Separator = "/" }, "could be part of a signature"},
		{"field without separator", func(s *signature.Scheme) { s.TimestampHeader, s.TimestampField, s.Separator = "", "t", "" }, "needs a separator"},
		{"field with separator", func(s *signature.Scheme) { s.TimestampHeader, s.TimestampField = "", "t s" }, `"t s": contains`},
		{"field like the prefix", func(s *signature.Scheme) { s.TimestampHeader, s.TimestampField, s.Prefix = "", "t", "t=1" }, "looks like the prefix"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := signature.StandardWebhooks("webhook")
			tt.spoil(&s)
			_, err := s.Verifier([]string{"c2VjcmV0"})
			if got := fmt.Sprint(err); err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(got, tt.want)) {
				t.Errorf("Verifier of %+v = %v, want %q", s, err, tt.want)
			}
		})
	}
}

func TestSecretErrors(t *testing.T) {
	tests := []struct {
		name        string
		keyEncoding string
		secrets     []string
		want        string // part of the error; "" for none
	}{
		{"text", "", []string{"s3cret"}, ""},
		{"text with a space inside", "", []string{"It's a Secret"}, ""},
		{"whsec", "whsec", []string{whsec}, ""},
		{"whsec without whsec_", "whsec", []string{"c2VjcmV0"}, ""},
		{"hex", "hex", []string{"00fF"}, ""},
		{"none", "", nil, "no secret"},
		{"empty", "", []string{""}, "secret 1: empty"},
		{"second empty", "", []string{"s3cret", ""}, "secret 2: empty"},
		{"blank", "", []string{" \t"}, "secret 1: blank"},
		{"newline after", "", []string{"s3cret\n"}, "secret 1: white space"},
		{"space before", "", []string{" s3cret"}, "secret 1: white space"},
		{"no-break space after", "", []string{"s3cret\u00a0"}, "secret 1: white space"},
		{"whsec without anything", "whsec", []string{"whsec_"}, "secret 1: decodes to an empty key"},
		{"whsec not base64", "whsec", []string{"whsec_s3cret!"}, "secret 1: cannot be decoded as whsec: want whsec_ and base64, as openssl rand -base64 24 makes it"},
		{"whsec unpadded", "whsec", []string{"whsec_c2VjcmV0cw"}, "secret 1: cannot be decoded as whsec: want whsec_ and base64, as openssl rand -base64 24 makes it"},
		{"base64 with whsec_", "base64", []string{"whsec_c2VjcmV0"}, "secret 1: cannot be decoded as base64"},
		{"base64 with a newline inside", "base64", []string{"c2Vj\ncmV0"}, "secret 1: cannot be decoded as base64"},
		{"hex odd", "hex", []string{"abc"}, "secret 1: cannot be decoded as hex"},
		{"hex of another kind", "hex", []string{"s3cret"}, "secret 1: cannot be decoded as hex"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := signature.GitHub()
			s.KeyEncoding = tt.keyEncoding
			_, err := s.Verifier(tt.secrets)
			got := fmt.Sprint(err)
			if err == nil && tt.want != "" || err != nil && (tt.want == "" || !strings.Contains(got, tt.want)) {
				t.Errorf("Verifier(%q) = %v, want %q", tt.secrets, err, tt.want)
			}
			for _, secret := range tt.secrets {
				if s := strings.TrimSpace(strings.TrimPrefix(secret, "whsec_")); err != nil && s != "" && strings.Contains(got, s) {
					t.Errorf("Verifier(%q) = %v, which tells the secret", tt.secrets, err)
				}
			}
		})
	}
}

func TestAllErrorsAtOnce(t *testing.T) {
	s := signature.Scheme{Header: "X-Signature", Algorithm: "md5", Encoding: "rot13", Signed: "{ts}{body}", Tolerance: time.Minute}
	_, err := s.Verifier([]string{"good", "", "bad\n"})
	for _, want := range []string{"md5", "rot13", "{ts}", "tolerance", "secret 2", "secret 3"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("Verifier = %v, want it to name %s too", err, want)
		}
	}
}

// A verifier that ends up in a log line must not take the keys there.
func TestVerifierDoesNotPrintKeys(t *testing.T) {
	v := mustVerifier(t, signature.GitHub(), "s3cret")
	sign(t, v, "", nil, noon)
	got := fmt.Sprintf("%v %+v %#v", v, v, v)
	for _, key := range []string{"s3cret", "115 51 99 114 101 116"} {
		if strings.Contains(got, strings.Trim(key, "[]")) {
			t.Errorf("the printed verifier contains %q: %s", key, got)
		}
	}
}

func TestEqual(t *testing.T) {
	t.Parallel()
	verifier := func(s signature.Scheme, secrets ...string) *signature.Verifier {
		v, err := s.Verifier(secrets)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	hub := verifier(signature.GitHub(), "a", "b")
	either := signature.GitHub()
	either.Or = []signature.Scheme{signature.Stripe()}
	for name, row := range map[string]struct {
		other *signature.Verifier
		want  bool
	}{
		"the same":       {verifier(signature.GitHub(), "a", "b"), true},
		"another secret": {verifier(signature.GitHub(), "a", "c"), false},
		"a secret less":  {verifier(signature.GitHub(), "a"), false},
		"another scheme": {verifier(signature.Stripe(), "a", "b"), false},
		"a scheme more":  {verifier(either, "a", "b"), false},
		"none":           {nil, false},
	} {
		if got := hub.Equal(row.other); got != row.want || row.other.Equal(hub) != got {
			t.Errorf("%s: Equal = %t, want %t", name, got, row.want)
		}
	}
	if none := (*signature.Verifier)(nil); !none.Equal(nil) {
		t.Error("none is not none")
	}
}
