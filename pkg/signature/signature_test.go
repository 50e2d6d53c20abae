package signature_test

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/webhook"
)

var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

const whsec = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

func mustVerifier(tb testing.TB, s signature.Scheme, secrets ...string) *signature.Verifier {
	tb.Helper()
	v, err := s.Verifier(secrets)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// sign returns the headers of what v's provider would send.
func sign(tb testing.TB, v *signature.Verifier, id string, body []byte, now time.Time) http.Header {
	tb.Helper()
	r, err := v.Sign(request(nil, body), id, now)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Header
}

func request(h http.Header, body []byte) signature.Request {
	return signature.Request{Method: "POST", Header: h, Body: body}
}

// reason returns why err refused, or "" for a nil error.
func reason(tb testing.TB, err error) signature.Reason {
	tb.Helper()
	if err == nil {
		return ""
	}
	e, ok := errors.AsType[*signature.Error](err)
	if !ok || !errors.Is(err, webhook.ErrUnverified) {
		tb.Fatalf("error %v is not a *signature.Error that wraps webhook.ErrUnverified", err)
	}
	return e.Reason
}

// Examples that the providers, or anybody with openssl, can confirm.
func TestPublished(t *testing.T) {
	tests := []struct {
		name   string
		scheme signature.Scheme
		secret string
		header http.Header
		body   string
		now    int64
	}{
		{"github", signature.GitHub(), "It's a Secret to Everybody",
			header("X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"),
			"Hello, World!", 0},
		{"standard webhooks", signature.StandardWebhooks("webhook"), whsec,
			header("Webhook-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Webhook-Timestamp", "1614265330",
				"Webhook-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
			`{"test": 2432232314}`, 1614265330},
		{"svix", signature.StandardWebhooks("svix"), strings.TrimPrefix(whsec, "whsec_"),
			header("Svix-Id", "msg_p5jXN8AQM9LWM0D4loKWxJek", "Svix-Timestamp", "1614265330",
				"Svix-Signature", "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="),
			`{"test": 2432232314}`, 1614265330},
		// printf '1700000000.{"id":"evt_1"}' | openssl dgst -sha256 -hmac whsec_test_secret
		{"stripe", signature.Stripe(), "whsec_test_secret",
			header("Stripe-Signature", "t=1700000000,v1=248a374f50f943a28b0f6ab50faf9a7e7e29b710fa26df9fb1618b9bf8ea9c9a"),
			`{"id":"evt_1"}`, 1700000000},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := mustVerifier(t, tt.scheme, tt.secret)
			now := time.Unix(tt.now, 0)
			if err := v.Verify(request(tt.header, []byte(tt.body)), now); err != nil {
				t.Errorf("Verify(%v) = %v, want nil", tt.header, err)
			}
			signed := sign(t, v, tt.header.Get(tt.scheme.IDHeader), []byte(tt.body), now)
			if name := tt.scheme.Header; signed.Get(name) != tt.header.Get(name) {
				t.Errorf("Sign = %q, want %q", signed.Get(name), tt.header.Get(name))
			}
		})
	}
}

func header(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// Each case starts from GitHub's valid headers and spoils one thing.
func TestOneSignature(t *testing.T) {
	const name = "X-Hub-Signature-256"
	v := mustVerifier(t, signature.GitHub(), "s3cret")
	body := []byte(`{"n":1}`)
	good := sign(t, v, "", body, noon).Get(name)
	digits := strings.TrimPrefix(good, "sha256=")
	raw, _ := hex.DecodeString(digits)

	tests := []struct {
		name   string
		header http.Header
		body   string
		want   signature.Reason
	}{
		{"valid", header(name, good), `{"n":1}`, ""},
		{"upper case hex", header(name, "sha256="+strings.ToUpper(digits)), `{"n":1}`, ""},
		{"header in lower case", header("x-hub-signature-256", good), `{"n":1}`, ""},
		{"header in upper case", header("X-HUB-SIGNATURE-256", good), `{"n":1}`, ""},
		{"body with one more space", header(name, good), `{"n": 1}`, signature.BodyAltered},
		{"body with a newline at its end", header(name, good), "{\"n\":1}\n", signature.BodyAltered},
		{"no body", header(name, good), "", signature.NoMatch},
		{"no header", http.Header{}, `{"n":1}`, signature.MissingHeader},
		{"nil header", nil, `{"n":1}`, signature.MissingHeader},
		{"header without values", http.Header{name: nil}, `{"n":1}`, signature.MissingHeader},
		{"only the SHA-1 header", header("X-Hub-Signature", good), `{"n":1}`, signature.UnknownScheme},
		{"header twice", header(name, good, name, good), `{"n":1}`, signature.RepeatedHeader},
		{"empty header", header(name, ""), `{"n":1}`, signature.MalformedHeader},
		{"only the prefix", header(name, "sha256="), `{"n":1}`, signature.MalformedHeader},
		{"no prefix", header(name, digits), `{"n":1}`, signature.MalformedHeader},
		{"prefix without =", header(name, "sha256"+digits), `{"n":1}`, signature.MalformedHeader},
		{"prefix in upper case", header(name, "SHA256="+digits), `{"n":1}`, signature.MalformedHeader},
		{"prefix twice", header(name, "sha256="+good), `{"n":1}`, signature.MalformedHeader},
		{"other algorithm", header(name, "sha1="+digits), `{"n":1}`, signature.UnknownScheme},
		{"space before", header(name, " "+good), `{"n":1}`, signature.MalformedHeader},
		{"space after", header(name, good+" "), `{"n":1}`, signature.MalformedHeader},
		{"not hex", header(name, "sha256=z"+digits[1:]), `{"n":1}`, signature.MalformedHeader},
		{"63 digits", header(name, good[:len(good)-1]), `{"n":1}`, signature.MalformedHeader},
		{"65 digits", header(name, good+"0"), `{"n":1}`, signature.MalformedHeader},
		{"62 digits", header(name, good[:len(good)-2]), `{"n":1}`, signature.NoMatch},
		{"66 digits", header(name, good+"00"), `{"n":1}`, signature.NoMatch},
		{"half", header(name, good[:len("sha256=")+32]), `{"n":1}`, signature.NoMatch},
		{"right MAC in base64", header(name, "sha256="+base64.StdEncoding.EncodeToString(raw)), `{"n":1}`, signature.MalformedHeader},
		{"right MAC in raw bytes", header(name, "sha256="+string(raw)), `{"n":1}`, signature.MalformedHeader},
		{"a list, which GitHub has not", header(name, good+","+good), `{"n":1}`, signature.MalformedHeader},
		{"4 KiB", header(name, "sha256="+strings.Repeat("0", 4096-7-1)), `{"n":1}`, signature.NoMatch},
		{"more than 4 KiB", header(name, "sha256="+strings.Repeat("0", 4096-7+1)), `{"n":1}`, signature.MalformedHeader},
		{"1 MB", header(name, good+strings.Repeat("0", 1<<20)), `{"n":1}`, signature.MalformedHeader},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := reason(t, v.Verify(request(tt.header, []byte(tt.body)), noon)); got != tt.want {
				t.Errorf("Verify(%.100q, %q) = %q, want %q", tt.header, tt.body, got, tt.want)
			}
		})
	}
}

func TestList(t *testing.T) {
	v := mustVerifier(t, signature.Stripe(), "s3cret")
	body := []byte(`{"n":1}`)
	good := sign(t, v, "", body, noon).Get("Stripe-Signature")
	at, sig, _ := strings.Cut(good, ",")
	other := "v1=" + strings.Repeat("0", 64)
	many := func(n int, entry string) string { return strings.Repeat(entry+",", n) }

	tests := []struct {
		name   string
		header string
		want   signature.Reason
	}{
		{"valid", good, ""},
		{"other order", sig + "," + at, ""},
		{"second of two", at + "," + other + "," + sig, ""},
		{"unknown version before", at + ",v0=zz," + sig, ""},
		{"damaged one before", at + ",v1=zz," + sig, ""},
		{"comma at the end", good + ",", ""},
		{"sixteen entries", many(14, other) + good, ""},
		{"seventeen entries", many(15, other) + good, signature.MalformedHeader},
		{"ten thousand entries", good + "," + many(10_000, other), signature.MalformedHeader},
		{"four thousand commas", good + many(3_900, ""), signature.MalformedHeader},
		{"wrong one", at + "," + other, signature.NoMatch},
		{"other version only", at + ",v0=" + sig[3:], signature.UnknownScheme},
		{"no signature", at, signature.MalformedHeader},
		{"no value", at + ",v1=", signature.MalformedHeader},
		{"none decodes", at + ",v1=zz,v1=" + sig[4:], signature.MalformedHeader},
		{"no =", at + ",v1" + sig[3:], signature.MalformedHeader},
		{"no timestamp", sig, signature.MalformedHeader},
		{"timestamp without =", "t" + at[2:] + "," + sig, signature.MalformedHeader},
		{"timestamp without value", "t=," + sig, signature.MalformedTimestamp},
		{"two timestamps", at + "," + good, signature.MalformedHeader},
		{"two timestamps, of which one is old", "t=1," + good, signature.MalformedHeader},
		{"other separator", strings.ReplaceAll(good, ",", ";"), signature.MalformedHeader},
		{"space after the comma", at + ", " + sig, signature.MalformedHeader},
		{"other timestamp", "t=" + strconv.FormatInt(noon.Unix()-1, 10) + "," + sig, signature.NoMatch},
		{"timestamp with a zero before", "t=0" + at[2:] + "," + sig, signature.NoMatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := header("Stripe-Signature", tt.header)
			if got := reason(t, v.Verify(request(h, body), noon)); got != tt.want {
				t.Errorf("Verify(%.200q) = %q, want %q", tt.header, got, tt.want)
			}
		})
	}
}

func TestOwnHeaders(t *testing.T) {
	v := mustVerifier(t, signature.StandardWebhooks("webhook"), whsec)
	body := []byte(`{"n":1}`)
	sig := sign(t, v, "msg_1", body, noon).Get("Webhook-Signature")
	at := strconv.FormatInt(noon.Unix(), 10)

	tests := []struct {
		name  string
		spoil func(h http.Header)
		want  signature.Reason
	}{
		{"valid", func(h http.Header) {}, ""},
		{"second of two", func(h http.Header) { h.Set("Webhook-Signature", "v1,AAAA "+sig) }, ""},
		{"beside an asymmetric one", func(h http.Header) { h.Set("Webhook-Signature", "v1a,AAAA "+sig) }, ""},
		{"no id", func(h http.Header) { h.Del("Webhook-Id") }, signature.MissingHeader},
		{"no timestamp", func(h http.Header) { h.Del("Webhook-Timestamp") }, signature.MissingHeader},
		{"no signature", func(h http.Header) { h.Del("Webhook-Signature") }, signature.MissingHeader},
		{"id twice", func(h http.Header) { h.Add("Webhook-Id", "msg_1") }, signature.RepeatedHeader},
		{"timestamp twice", func(h http.Header) { h.Add("Webhook-Timestamp", at) }, signature.RepeatedHeader},
		{"signature twice", func(h http.Header) { h.Add("Webhook-Signature", sig) }, signature.RepeatedHeader},
		{"empty id", func(h http.Header) { h.Set("Webhook-Id", "") }, signature.MalformedHeader},
		{"empty timestamp", func(h http.Header) { h.Set("Webhook-Timestamp", "") }, signature.MalformedHeader},
		{"long id", func(h http.Header) { h.Set("Webhook-Id", strings.Repeat("m", 4097)) }, signature.MalformedHeader},
		{"other id", func(h http.Header) { h.Set("Webhook-Id", "msg_2") }, signature.NoMatch},
		{"id with a space", func(h http.Header) { h.Set("Webhook-Id", "msg_1 ") }, signature.NoMatch},
		{"unpadded", func(h http.Header) { h.Set("Webhook-Signature", strings.TrimRight(sig, "=")) }, signature.MalformedHeader},
		{"other bits after the last", func(h http.Header) { h.Set("Webhook-Signature", nextLast(sig)) }, signature.MalformedHeader},
		{"newline inside", func(h http.Header) { h.Set("Webhook-Signature", sig[:9]+"\n"+sig[9:]) }, signature.MalformedHeader},
		{"url alphabet", func(h http.Header) { h.Set("Webhook-Signature", "v1,-_"+sig[5:]) }, signature.MalformedHeader},
		{"timestamp -1", func(h http.Header) { h.Set("Webhook-Timestamp", "-1") }, signature.MalformedTimestamp},
		{"timestamp +1", func(h http.Header) { h.Set("Webhook-Timestamp", "+"+at) }, signature.MalformedTimestamp},
		{"timestamp 1e20", func(h http.Header) { h.Set("Webhook-Timestamp", "1e20") }, signature.MalformedTimestamp},
		{"timestamp 10^20", func(h http.Header) { h.Set("Webhook-Timestamp", "100000000000000000000") }, signature.MalformedTimestamp},
		{"timestamp 2^64 more", func(h http.Header) { h.Set("Webhook-Timestamp", "18446744075603133216") }, signature.MalformedTimestamp},
		{"timestamp with a fraction", func(h http.Header) { h.Set("Webhook-Timestamp", at+".0") }, signature.MalformedTimestamp},
		{"timestamp with a space", func(h http.Header) { h.Set("Webhook-Timestamp", " "+at) }, signature.MalformedTimestamp},
		{"timestamp in RFC 3339", func(h http.Header) { h.Set("Webhook-Timestamp", noon.Format(time.RFC3339)) }, signature.MalformedTimestamp},
		{"timestamp in milliseconds", func(h http.Header) { h.Set("Webhook-Timestamp", at+"000") }, signature.MalformedTimestamp},
		{"timestamp 0 is not what was signed", func(h http.Header) { h.Set("Webhook-Timestamp", "0") }, signature.NoMatch},
		{"timestamp of 12 digits", func(h http.Header) { h.Set("Webhook-Timestamp", "999999999999") }, signature.NoMatch},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := sign(t, v, "msg_1", body, noon)
			tt.spoil(h)
			if got := reason(t, v.Verify(request(h, body), noon)); got != tt.want {
				t.Errorf("Verify(%.200q) = %q, want %q", h, got, tt.want)
			}
		})
	}
}

// nextLast changes a base64 text in those bits of its last character that
// belong to no byte, so that a lenient decoder reads the same bytes.
func nextLast(s string) string {
	b := []byte(s)
	b[len(b)-2]++
	return string(b)
}

func TestFreshness(t *testing.T) {
	body := []byte(`{}`)
	tests := []struct {
		name string
		now  time.Time // when what was signed at noon arrives
		want signature.Reason
	}{
		{"at once", noon, ""},
		{"as old as allowed", noon.Add(300 * time.Second), ""},
		{"as old as allowed, and a fraction", noon.Add(300*time.Second + 999*time.Millisecond), ""},
		{"a second too old", noon.Add(301 * time.Second), signature.TooOld},
		{"very old", noon.AddDate(10, 0, 0), signature.TooOld},
		{"as far ahead as allowed", noon.Add(-300 * time.Second), ""},
		{"a second too far ahead", noon.Add(-301 * time.Second), signature.InFuture},
		{"clock at zero", time.Time{}, signature.InFuture},
	}
	for name, scheme := range map[string]signature.Scheme{
		"stripe":   signature.Stripe(),
		"standard": signature.StandardWebhooks("webhook"),
	} {
		v := mustVerifier(t, scheme, whsec)
		h := sign(t, v, "msg_1", body, noon)
		for _, tt := range tests {
			t.Run(name+"/"+tt.name, func(t *testing.T) {
				if got := reason(t, v.Verify(request(h, body), tt.now)); got != tt.want {
					t.Errorf("Verify at %s = %q, want %q", tt.now, got, tt.want)
				}
			})
		}
		// Who cannot sign does not hear that the timestamp is old.
		got := reason(t, v.Verify(request(h, []byte(`{"n":1}`)), noon.AddDate(1, 0, 0)))
		if got != signature.NoMatch {
			t.Errorf("%s: Verify of an old forgery = %q, want %q", name, got, signature.NoMatch)
		}
	}
}

func TestTimestampZero(t *testing.T) {
	v := mustVerifier(t, signature.Stripe(), "s3cret")
	h := sign(t, v, "", nil, time.Unix(0, 0))
	if err := v.Verify(request(h, nil), time.Unix(10, 0)); err != nil {
		t.Errorf("Verify of t=0 ten seconds later = %v, want nil", err)
	}
}

func TestNoTolerance(t *testing.T) {
	s := signature.Stripe()
	s.Tolerance = 0
	v := mustVerifier(t, s, "s3cret")
	if err := v.Verify(request(sign(t, v, "", nil, noon), nil), noon.AddDate(9, 0, 0)); err != nil {
		t.Errorf("Verify without tolerance = %v, want nil", err)
	}
}

func TestRotation(t *testing.T) {
	body := []byte(`{"n":1}`)
	for _, scheme := range []signature.Scheme{signature.GitHub(), signature.Stripe()} {
		both := mustVerifier(t, scheme, "new", "old")
		for i, secret := range []string{"new", "old"} {
			h := sign(t, mustVerifier(t, scheme, secret), "", body, noon)
			if got, err := both.Match(request(h, body), noon); got != i || err != nil {
				t.Errorf("%s: Match of %q's = %d, %v, want %d", scheme.Header, secret, got, err, i)
			}
		}
		h := sign(t, mustVerifier(t, scheme, "other"), "", body, noon)
		if got, err := both.Match(request(h, body), noon); got != -1 || reason(t, err) != signature.NoMatch {
			t.Errorf("%s: Match of another's = %d, %v, want -1, no_match", scheme.Header, got, err)
		}
	}
}

// The verifier reuses its memory, so calls must not see each other's.
func TestConcurrentUse(t *testing.T) {
	v := mustVerifier(t, signature.StandardWebhooks("webhook"), whsec, "c2Vjb25k")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			body := []byte(strings.Repeat("x", i))
			h := sign(t, v, "msg_"+strconv.Itoa(i), body, noon)
			for range 200 {
				if err := v.Verify(request(h, body), noon); err != nil {
					t.Errorf("Verify of %d = %v, want nil", i, err)
				}
				if err := v.Verify(request(h, append(body, 'y')), noon); err == nil {
					t.Errorf("Verify of %d with another body = nil, want no_match", i)
				}
			}
		})
	}
	wg.Wait()
}
