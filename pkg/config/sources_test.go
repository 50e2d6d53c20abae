package config_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// canary is every secret of these tests. No error may contain it.
const canary = "sk-Canary_4711"

var secrets = map[string]string{
	"GITHUB_SECRET": canary,
	"SHOP_SECRET":   canary,
	"EMPTY":         "",
	"PADDED":        canary + "\n",
	"EIGHT":         "8",
	"TRICK":         "x\n    verify: none # \"'{[",
}

func getenv(name string) (string, bool) {
	value, ok := secrets[name]
	return value, ok
}

func parse(text string) ([]source.Source, error) {
	return config.ParseSources("hookonce.yaml", []byte(text), getenv, "payments")
}

// design is the example of the design.
const design = `sources:
  github:
    provider: github                    # a preset: scheme, where id and type are, handshake, limits
    secrets: ["${GITHUB_SECRET}", "${GITHUB_SECRET_OLD:-}"]   # any of them is good: rotation
  shop:
    verify: {scheme: hmac, header: X-Signature, algorithm: sha256, encoding: hex, prefix: "sha256="}
    secrets: ["${SHOP_SECRET}"]
    id:   {json: /data/id}              # or {header: X-Event-Id}; JSON Pointer
    type: {json: /type}
    max_body: 2MiB                      # default 1 MiB
    max_retry: 8                        # default 24
    timeout: 10s                        # one attempt; default 15 s
    concurrency: 16                     # of this source, in one worker process
    handlers:                           # first match wins (glob over the whole type); none: recorded
      - {match: "payment.*", handler: payments, amount: {json: /data/amount}}
`

func TestDesign(t *testing.T) {
	for name, text := range map[string]string{
		"as it is":      design,
		"CRLF and mark": "\uFEFF" + strings.ReplaceAll(design, "\n", "\r\n"),
	} {
		got, err := parse(text)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for i := range got {
			if got[i].Verifier == nil {
				t.Fatalf("%s: source %s is unsigned", name, got[i].Name)
			}
			signed := sign(t, got[i].Verifier, "", "{}", time.Now()).Header
			if header := []string{"X-Hub-Signature-256", "X-Signature"}[i]; !strings.HasPrefix(signed.Get(header), "sha256=") {
				t.Errorf("%s: source %s signs with %v, want %s", name, got[i].Name, signed, header)
			}
			got[i].Verifier = nil
		}
		preset, _ := source.FindPreset("github")
		github, shop := preset.Source("github"), source.New("shop")
		shop.ID = []source.Locator{{JSON: source.Pointer("/data/id")}}
		shop.Type = []source.Locator{{JSON: source.Pointer("/type")}}
		shop.MaxBody, shop.MaxRetry, shop.Timeout = 2<<20, 8, 10*time.Second
		shop.Handlers = []source.Rule{{Match: "payment.*", Handler: "payments", Amount: source.Pointer("/data/amount")}}
		if want := []source.Source{github, shop}; !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got\n%+v, want\n%+v", name, got, want)
		}
	}
}

// one returns a file with one source, of which the name and all lines are given.
func one(name string, lines ...string) string {
	return "sources:\n  " + name + ":\n    " + strings.Join(lines, "\n    ") + "\n"
}

var unsigned = []string{"verify: none", "id: {json: /id}", "type: {header: X-Type}"}

func TestLimits(t *testing.T) {
	tests := []struct {
		line string
		want func(s *source.Source)
	}{
		{"{}", func(*source.Source) {}},
		{"ack_status: 202", func(s *source.Source) { s.AckStatus = 202 }},
		{"ack_status: 204", func(s *source.Source) { s.AckStatus = 204 }},
		{"max_body: 1", func(s *source.Source) { s.MaxBody = 1 }},
		{"max_body: 512KiB", func(s *source.Source) { s.MaxBody = 512 << 10 }},
		{"max_body: 1MB", func(s *source.Source) { s.MaxBody = 1e6 }},
		{"max_body: 64MiB", func(s *source.Source) { s.MaxBody = 64 << 20 }},
		{"max_retry: 0", func(s *source.Source) { s.MaxRetry = 0 }},
		{"max_retry: 1000", func(s *source.Source) { s.MaxRetry = 1000 }},
		{"max_retry: ${EIGHT}", func(s *source.Source) { s.MaxRetry = 8 }},
		{`max_retry: "${EIGHT}"`, func(s *source.Source) { s.MaxRetry = 8 }},
		{"max_retry: ${NONE:-9}", func(s *source.Source) { s.MaxRetry = 9 }},
		{"max_retry: ${EMPTY:-9}", func(s *source.Source) { s.MaxRetry = 9 }},
		{"timeout: 1s", func(s *source.Source) { s.Timeout = time.Second }},
		{"timeout: 15m", func(s *source.Source) { s.Timeout = 15 * time.Minute }},
		{"timeout: ${EIGHT}s", func(s *source.Source) { s.Timeout = 8 * time.Second }},
		{"concurrency: 1000", func(s *source.Source) { s.Concurrency = 1000 }},
		{"retention: 0", func(s *source.Source) { s.Retention = 0 }},
		{"retention: 24h", func(s *source.Source) { s.Retention = 24 * time.Hour }},
		{"headers: [X-A, x-b]", func(s *source.Source) { s.KeepHeaders = []string{"X-A", "x-b"} }},
		{"handlers: []", func(*source.Source) {}},
		{"handlers: [{match: a$b, handler: payments}]", func(s *source.Source) {
			s.Handlers = []source.Rule{{Match: "a$b", Handler: "payments", Amount: source.Pointer("/amount")}}
		}},
		{"handlers: [{match: $$${EIGHT}, handler: payments}]", nil}, // braces end the plain text
		{`handlers: [{match: "$$${EIGHT}", handler: payments}]`, func(s *source.Source) {
			s.Handlers = []source.Rule{{Match: "$$8", Handler: "payments", Amount: source.Pointer("/amount")}}
		}},
		{`handlers: [{match: "${TRICK}", handler: payments}]`, func(s *source.Source) {
			s.Handlers = []source.Rule{{Match: secrets["TRICK"], Handler: "payments", Amount: source.Pointer("/amount")}}
		}},
	}
	for _, tt := range tests {
		lines := unsigned
		if tt.line != "{}" {
			lines = append(lines[:3:3], tt.line)
		}
		got, err := parse(one("a", lines...))
		if tt.want == nil {
			if err == nil {
				t.Errorf("%s: no error", tt.line)
			}
			continue
		}
		want := source.New("a")
		want.ID = []source.Locator{{JSON: source.Pointer("/id")}}
		want.Type = []source.Locator{{Header: "X-Type"}}
		tt.want(&want)
		if err != nil || !reflect.DeepEqual(got, []source.Source{want}) {
			t.Errorf("%s: got %+v, %v, want %+v", tt.line, got, err, want)
		}
	}
}

// How a source says who it is: what comes of it besides the limits.
func TestOrigin(t *testing.T) {
	own := source.Default()
	standard, _ := source.FindPreset("standard-webhooks")
	header := []source.Locator{{Header: "X-Id"}}
	typ := []source.Locator{{JSON: source.Pointer("/type")}}
	whsec := `secrets: whsec_Q2FuYXJ5`
	tests := []struct {
		name  string
		file  string
		want  source.Source // ID, Type, Integers, Handlers
		field string        // a header of a signed delivery; "" if nothing is verified
	}{
		{"preset", one("a", "provider: standard-webhooks", whsec),
			source.Source{ID: standard.ID, Type: standard.Type}, "Webhook-Signature"},
		{"preset with another id", one("a", "provider: standard-webhooks", whsec, "id: {header: X-Id}"),
			source.Source{ID: header, Type: standard.Type}, "Webhook-Signature"},
		{"scheme with a default id", one("a", "verify: {scheme: standard-webhooks, tolerance: 1m}", whsec, "type: {json: /type}"),
			source.Source{ID: []source.Locator{{Header: "Webhook-Id"}}, Type: typ}, "Webhook-Signature"},
		{"github's scheme", one("a", "verify: {scheme: github}", "secrets: ${SHOP_SECRET}", "id: {header: X-Id}", "type: {json: /type}"),
			source.Source{ID: header, Type: typ}, "X-Hub-Signature-256"},
		{"stripe's scheme", one("a", "verify:", "  scheme: stripe", "  tolerance: 0", "secrets:", "  - x", "id: {header: X-Id}", "type: {json: /type}"),
			source.Source{ID: header, Type: typ}, "Stripe-Signature"},
		{"all of hmac", one("a", "verify:", "  scheme: hmac", "  header: X-Sig", "  algorithm: sha512", "  encoding: base64",
			`  prefix: "v1="`, "  prefix_optional: true", `  separator: ";"`, "  timestamp_header: X-Time", "  id_header: X-Id",
			`  signed: "{id}.{timestamp}.{body}"`, "  tolerance: 5m", "  key_encoding: hex", "secrets: \"00ff\"",
			"id: {header: X-Id}", "type: {json: /type}"),
			source.Source{ID: header, Type: typ}, "X-Sig"},
		{"default, unsigned", one("default", "verify: none"), own, ""},
		{"default, hmac", one("default", "verify: {scheme: hmac, header: X-Sig}", "secrets: x"), own, "X-Sig"},
		{"default with other handlers", one("default", "verify: none", "handlers: []"),
			source.Source{ID: own.ID, Type: own.Type, Integers: own.Integers}, ""},
		{"default with its own id", one("default", "verify: none", "id: {header: X-Id}", "type: {json: /type}"),
			source.Source{ID: header, Type: typ}, ""},
		{"default with a preset", one("default", "provider: standard-webhooks", whsec),
			source.Source{ID: standard.ID, Type: standard.Type}, "Webhook-Signature"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			all, err := parse(tt.file)
			if err != nil {
				t.Fatal(err)
			}
			got := all[0]
			if !reflect.DeepEqual(got.ID, tt.want.ID) || !reflect.DeepEqual(got.Type, tt.want.Type) ||
				!reflect.DeepEqual(got.Integers, tt.want.Integers) || !reflect.DeepEqual(got.Handlers, tt.want.Handlers) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
			if got.Verifier == nil && tt.field == "" {
				return
			}
			now := time.Now()
			signed := sign(t, got.Verifier, "id", "{}", now)
			if err := got.Verify(signed, now); signed.Header.Get(tt.field) == "" || err != nil {
				t.Errorf("signed %v: %v, want a header %s", signed.Header, err, tt.field)
			}
			if got.Verify(signature.Request{Body: signed.Body}, now) == nil {
				t.Error("accepts what nobody signed")
			}
		})
	}
}

// sign returns what v's provider would send.
func sign(t *testing.T, v *signature.Verifier, id, body string, now time.Time) signature.Request {
	t.Helper()
	r, err := v.Sign(signature.Request{Body: []byte(body)}, id, now)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestRotation(t *testing.T) {
	old, err := parse(one("a", "provider: github", "secrets: old"))
	if err != nil {
		t.Fatal(err)
	}
	both, err := parse(one("a", "provider: github", `secrets: ["${SHOP_SECRET}", old, "${EMPTY:-}"]`))
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	if i, err := both[0].Verifier.Match(sign(t, old[0].Verifier, "", "", now), now); i != 1 || err != nil {
		t.Errorf("Match = %d, %v, want the second secret", i, err)
	}
}
