package program_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// families are the providers of the corpus. Those without a preset go to a source
// that only knows their bytes.
var families = []string{
	"adyen", "amazon-ses", "ampersand", "anthropic", "assemblyai", "attio", "auth0", "azure-devops", "bigcommerce",
	"bitbucket", "brevo", "brex", "cal-com", "calendly", "checkout", "clerk", "close-crm", "coinbase", "commercelayer",
	"deepgram", "discord", "dockerhub", "docusign", "elevenlabs", "gitea", "gitee", "github-go-scm", "github", "gitlab",
	"gocardless", "gogs", "hubspot", "intercom", "jira", "line", "linear", "mailersend", "mailjet", "mailtrap",
	"mandrill", "monday", "notion", "openai", "paddlebilling", "paddleclassic", "paypal", "pagerduty", "pipedrive", "plaid", "postal", "postmark",
	"razorpay", "recall-ai", "replicate", "resend", "retell", "sendgrid", "sentry", "shopify", "slack", "sparkpost",
	"square", "stripe", "supabase", "telegram", "twilio", "typeform", "unisender-go", "vapi", "vercel", "whatsapp",
	"woocommerce", "workos", "zendesk", "zoom",
}

const (
	// forms takes Paddle Classic's, which no preset reads: half of its files
	// are forms and the rest JSON.
	forms = `{verify: {scheme: hmac, header: X-Signature}, id: content, type: {text: event}, content: [json, form], secrets: [shared]}`
	// webhookID is what PayPal calls a webhook, and signs.
	webhookID = "WH-1"
)

const generic = `{verify: {scheme: hmac, header: X-Signature}, id: content, type: {text: event}, items: {json: ""}, secrets: [shared]}`

// TestCorpus sends what providers really send, signed as they sign, through
// ingest and worker: every event of it is completed, and stored byte for byte.
func TestCorpus(t *testing.T) {
	t.Parallel()
	shared := sharedFolder(t)
	var file strings.Builder
	names, privates := map[string]string{}, map[string]string{}
	file.WriteString("sources:\n")
	for _, provider := range families {
		names[provider] = stacktest.Source(t)
		p, ok := source.FindPreset(provider)
		if !ok {
			privates[provider] = "shared"
			settings := generic
			if provider == "paddleclassic" {
				settings = forms
			}
			fmt.Fprintf(&file, "  %s: %s\n", names[provider], settings)
			continue
		}
		public, private := keysFor(t, p.Scheme)
		privates[provider] = private
		more := ""
		if provider == "paypal" {
			more = ", webhook_id: " + webhookID
		}
		fmt.Fprintf(&file, "  %s: {provider: %s, secrets: [%q]%s}\n", names[provider], provider, public, more)
	}
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), file.String())
	ingest := s.start("ingest")
	s.start("worker")
	for provider, unproven := range map[string]bool{"sparkpost": true, "github": false, "auth0": false} {
		said := strings.Contains(ingest.text(), fmt.Sprintf(`"this provider is unproven: send a test event from it before you rely on it, and see PROVIDERS.md","program":"ingest","source":%q`, names[provider]))
		if said != unproven {
			t.Errorf("ingest calls %s unproven: %t, want %t", provider, said, unproven)
		}
	}
	sources, err := config.ParseSources("", []byte(file.String()), func(string) (string, bool) { return "", false })
	if err != nil {
		t.Fatal(err)
	}
	byName := map[string]source.Source{}
	for _, src := range sources {
		byName[src.Name] = src
	}

	want := map[string][]byte{} // the bodies of the events
	for _, provider := range families {
		src := byName[names[provider]]
		for i, body := range payloadsOf(t, filepath.Join(shared, "corpus", provider)) {
			if provider == "stripe" {
				body = withOwnID(t, body, i)
			}
			if provider == "discord" && bytes.Contains(body, []byte(`"type":0`)) {
				continue // a ping, which is answered and no event
			}
			r := signedPayload(t, src, provider, privates[provider], ingest.url, fmt.Sprintf("id-%d", i), body)
			items, err := src.Read(r.Header, r.Body)
			if err != nil {
				t.Fatalf("%s, payload %d: %v", provider, i, err)
			}
			for _, item := range items { // some share an id, as examples do: the first stays
				if key := src.Name + "/" + item.ID; want[key] == nil {
					want[key] = item.Body
				}
			}
			if code, text := postRequest(t, r); code != http.StatusOK {
				t.Errorf("%s, payload %d: answered %d %s", provider, i, code, text)
			}
		}
	}
	s.awaitCompleted(len(want))
	s.checkStored(want)
}

// checkStored compares the payloads of all events with what was sent.
func (s *stage) checkStored(want map[string][]byte) {
	s.tb.Helper()
	rows, err := s.db.Query(s.tb.Context(), `SELECT source || '/' || event_id, payload FROM received_events`)
	if err != nil {
		s.tb.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var key string
		var payload []byte
		if err := rows.Scan(&key, &payload); err != nil {
			s.tb.Fatal(err)
		}
		if n++; !bytes.Equal(payload, want[key]) {
			s.tb.Errorf("%s: stored %q, want %q", key, payload, want[key])
		}
	}
	if err := rows.Err(); err != nil || n != len(want) {
		s.tb.Errorf("%d events are stored, %v, want %d", n, err, len(want))
	}
}

// keysFor returns a secret of a source, and what its provider signs with.
func keysFor(t *testing.T, s signature.Scheme) (secret, private string) {
	t.Helper()
	var key any
	var public any
	switch {
	case s.Kind == signature.Ed25519:
		p, k, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, key = p, k
	case s.Kind == signature.ECDSA:
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		public, key = k.Public(), k
	case s.Kind == signature.RSA:
		k, err := rsa.GenerateKey(rand.Reader, 2048)
		if err != nil {
			t.Fatal(err)
		}
		public, key = k.Public(), k
	case s.Kind == signature.Basic:
		return "name:password", "name:password"
	case s.KeyEncoding == "hex":
		return "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff"
	default:
		return "c2VjcmV0", "c2VjcmV0"
	}
	spki, publicErr := x509.MarshalPKIXPublicKey(public)
	der, privateErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(publicErr, privateErr); err != nil {
		t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(spki), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// signedPayload is a payload as its provider would post it.
func signedPayload(t *testing.T, src source.Source, provider, private, url, id string, body []byte) signature.Request {
	t.Helper()
	h, _, err := src.Sample(id, "type of "+id, nil)
	if err != nil {
		t.Fatal(err)
	}
	contentType, body := src.Fit(body)
	if provider == "paddleclassic" && !bytes.HasPrefix(body, []byte("{")) {
		contentType = "application/x-www-form-urlencoded"
	}
	h.Set("Content-Type", contentType)
	r := signature.Request{Method: http.MethodPost, URL: url + "/webhooks/" + src.Name, Header: h, Body: body}
	p, ok := source.FindPreset(provider)
	if !ok {
		p.Scheme = signature.Scheme{Header: "X-Signature", Algorithm: "sha256", Encoding: "hex"}
	}
	for _, scheme := range append([]signature.Scheme{p.Scheme}, p.Scheme.Or...) {
		if provider == "paypal" {
			scheme.WebhookID = webhookID
		}
		signer, signerErr := scheme.Signer(private)
		if signerErr != nil {
			t.Fatal(signerErr)
		}
		var signed signature.Request
		if signed, err = signer.Sign(r, id, time.Now()); err == nil {
			return signed
		}
	}
	t.Fatal(err)
	return r
}

func postRequest(t *testing.T, r signature.Request) (code int, text string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), r.Method, r.URL, bytes.NewReader(r.Body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = r.Header
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var answer bytes.Buffer
	if _, err := answer.ReadFrom(resp.Body); err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, answer.String()
}

func payloadsOf(t *testing.T, dir string) [][]byte {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: %d payloads, %v", dir, len(names), err)
	}
	var bodies [][]byte
	for _, name := range names {
		body, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bodies = append(bodies, body)
	}
	return bodies
}
