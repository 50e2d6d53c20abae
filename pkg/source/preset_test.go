package source_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestProviders(t *testing.T) {
	t.Parallel()
	names := source.Providers()
	if len(names) < 50 || !slices.IsSorted(names) {
		t.Errorf("Providers = %q", names)
	}
	for _, name := range []string{"", "GitHub", "nobody"} {
		if p, ok := source.FindPreset(name); ok {
			t.Errorf("FindPreset(%q) = %+v", name, p)
		}
	}
}

// Whoever adds a provider says what a person has to know of it.
func TestPresetsSayAll(t *testing.T) {
	t.Parallel()
	for _, provider := range source.Providers() {
		p, _ := source.FindPreset(provider)
		if !source.ValidName(provider) {
			t.Errorf("%q is no name for a source", provider)
		}
		if u, err := url.Parse(p.Page); p.Title == "" || p.Setup == "" || err != nil || u.Scheme != "https" {
			t.Errorf("%s says %+v", provider, p.About)
		}
		if len(p.Type) == 0 || len(p.ID) == 0 {
			t.Errorf("%s has ids at %v and types at %v", provider, p.ID, p.Type)
		}
		if p.Replay != 0 && p.IDSigned() {
			t.Errorf("%s looks for replays, but its ids are signed", provider)
		}
		for _, h := range p.KeepHeaders {
			if strings.EqualFold(h, p.Scheme.Header) || strings.EqualFold(h, "Authorization") {
				t.Errorf("%s keeps %s, which is a secret or a signature", provider, h)
			}
		}
	}
}

// signs makes a preset into a source that takes what its provider signs, and
// what signs for the provider.
func signs(t *testing.T, p source.Preset, name string) (source.Source, *signature.Verifier) {
	t.Helper()
	p.Scheme = complete(p.Scheme)
	secret, private := secretsFor(t, p.Scheme)
	s := p.Source(name)
	v, err := p.Scheme.Verifier([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	signer, err := p.Scheme.Signer(private)
	if err != nil {
		t.Fatal(err)
	}
	s.Verifier = v
	return s, signer
}

// complete has what a user says of a scheme, where one must.
func complete(s signature.Scheme) signature.Scheme {
	if strings.Contains(s.Signed, "{webhook_id}") {
		s.WebhookID = "WH-1"
	}
	return s
}

// secretsFor returns what a source checks with, and what its provider signs with.
func secretsFor(t *testing.T, s signature.Scheme) (secret, private string) {
	t.Helper()
	var key crypto.Signer
	var err error
	switch {
	case s.Kind == signature.Ed25519:
		_, key, err = ed25519.GenerateKey(rand.Reader)
	case s.Kind == signature.ECDSA:
		key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case s.Kind == signature.RSA:
		key, err = rsa.GenerateKey(rand.Reader, 2048)
	case s.Kind == signature.Basic:
		return "name:password", "name:password"
	case s.KeyEncoding == "hex":
		return "00112233445566778899aabbccddeeff", "00112233445566778899aabbccddeeff"
	default:
		return "c2VjcmV0", "c2VjcmV0"
	}
	public, publicErr := x509.MarshalPKIXPublicKey(key.Public())
	der, privateErr := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err, publicErr, privateErr); err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public})), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
}

// sample is a delivery of an event, signed as the provider would.
func sample(t *testing.T, s source.Source, signer *signature.Verifier, id, typ string) signature.Request {
	t.Helper()
	h, body, err := s.Sample(id, typ, nil)
	if err != nil {
		t.Fatal(err)
	}
	r := signature.Request{Method: http.MethodPost, URL: "https://hooks.example.com/webhooks/" + s.Name, Header: h, Body: body}
	named(h, id)
	signed, err := signer.Sign(r, id, noon)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// named gives a delivery the headers that PayPal signs.
func named(h http.Header, id string) {
	h.Set("Paypal-Transmission-Id", id)
	h.Set("Paypal-Transmission-Time", noon.Format(time.RFC3339))
}

// Each preset makes a source that takes what its provider signs, and finds one
// event in it, with an id and a type.
func TestPresets(t *testing.T) {
	t.Parallel()
	for _, provider := range source.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			p, _ := source.FindPreset(provider)
			s, signer := signs(t, p, provider)
			r := sample(t, s, signer, "id-1", "x.y")
			if err := s.Verify(r, noon); err != nil {
				t.Errorf("Verify(%s) = %v", r.Body, err)
			}
			other := r
			other.Body = append(slices.Clone(r.Body), ' ')
			bodySigned := !p.Scheme.BodyUnsigned && p.Scheme.Kind != signature.Token && p.Scheme.Kind != signature.Basic
			if err := s.Verify(other, noon); !errors.Is(err, webhook.ErrUnverified) && bodySigned {
				t.Errorf("Verify of another body = %v, want %v", err, webhook.ErrUnverified)
			}
			items, err := s.Read(r.Header, r.Body)
			if err != nil || len(items) != 1 || items[0].Err != nil {
				t.Fatalf("Read(%s) = %+v, %v", r.Body, items, err)
			}
			if items[0].ID == "" || items[0].Type == "" || items[0].Type == "unknown" {
				t.Errorf("Read(%s) = id %q, type %q", r.Body, items[0].ID, items[0].Type)
			}
		})
	}
}

// Two copies of a delivery are one event, and two deliveries are two.
func TestPresetsTellEventsApart(t *testing.T) {
	t.Parallel()
	for _, provider := range source.Providers() {
		p, _ := source.FindPreset(provider)
		if len(p.ID) > 0 && p.ID[0].Delivery {
			continue
		}
		s, signer := signs(t, p, provider)
		read := func(id string) string {
			r := sample(t, s, signer, id, "x.y")
			got, _, err := readOne(s, r.Header, r.Body)
			if err != nil {
				t.Errorf("%s: Read = %v", provider, err)
			}
			return got
		}
		if one, copied, two := read("id-1"), read("id-1"), read("id-2"); one != copied || one == two {
			t.Errorf("%s: ids %q and %q of the same, %q of another", provider, one, copied, two)
		}
	}
}

// The ids of subscriptions look like ids of events, and are none.
func TestSubscriptionsAreNoIDs(t *testing.T) {
	t.Parallel()
	places := map[string][]string{
		"woocommerce": {"X-Wc-Webhook-Id"}, "bitbucket": {"X-Hook-Uuid"}, "linear": {"/webhookId"}, "gitlab": {"X-Gitlab-Webhook-Uuid", "/checkout_sha"},
		"shopify": {"X-Shopify-Webhook-Id"}, "github": {"X-Github-Hook-Id"}, "gitee": {"/hook_id"}, "wise": {"/subscription_id"}, "notion": {"/subscription_id"},
		"hubspot": {"/subscriptionId"}, "paddle": {"/notification_id"}, "docusign": {"/configurationId"},
	}
	for provider, forbidden := range places {
		p, _ := source.FindPreset(provider)
		var walk func(l source.Locator)
		walk = func(l source.Locator) {
			if slices.Contains(forbidden, http.CanonicalHeaderKey(l.Header)) || slices.Contains(forbidden, l.JSON.String()) {
				t.Errorf("%s takes %+v for the id of an event", provider, l)
			}
			for _, other := range l.Or {
				walk(other)
			}
		}
		for _, l := range p.ID {
			walk(l)
		}
	}
}

// A preset belongs to the caller: changing it changes nobody else's.
func TestPresetsAreNotShared(t *testing.T) {
	t.Parallel()
	p, _ := source.FindPreset("github")
	p.Type[0].Header, p.KeepHeaders[0] = "X-Other", "X-Other"
	if again, _ := source.FindPreset("github"); again.Type[0].Header != "X-GitHub-Event" || again.KeepHeaders[0] != "X-GitHub-Event" {
		t.Errorf("FindPreset = %+v", again)
	}
}
