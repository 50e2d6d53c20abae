package main

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// receive is a server that takes what a provider signs, and answers with the
// id, the type and the body of each event.
func receive(t *testing.T, provider, secret string) string {
	t.Helper()
	p, _ := source.FindPreset(provider)
	src := p.Source(provider)
	if provider == "paypal" {
		p.Scheme.WebhookID = "WH-1"
	}
	var err error
	if src.Verifier, err = p.Scheme.Verifier([]string{secret}); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		request := signature.Request{Method: r.Method, URL: "http://" + r.Host + r.URL.String(), Header: r.Header, Body: body}
		if err := src.Verify(request, time.Now()); err != nil {
			http.Error(w, err.Error(), http.StatusUnauthorized)
			return
		}
		if _, err := src.Kind(r.Header); err != nil {
			http.Error(w, err.Error(), http.StatusUnsupportedMediaType)
			return
		}
		items, err := src.Read(r.Header, body)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		for _, item := range items {
			fmt.Fprintf(w, "%s %s %s %v %s\n", r.URL.Path, item.ID, item.Type, item.Err, item.Body)
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

var webhookID = map[string][]string{"paypal": {"--webhook-id", "WH-1"}}

// secretFor returns what the sources file has for a provider, and the arguments
// and the environment with which send signs for it.
func secretFor(t *testing.T, provider string) (secret string, args, environ []string) {
	t.Helper()
	p, _ := source.FindPreset(provider)
	if isPublic(p.Scheme) {
		file := filepath.Join(t.TempDir(), "key.pem")
		out := must(t, nil, "send", "--provider", provider, "--new-private-key", file)
		return strings.TrimSuffix(strings.TrimPrefix(out, `secrets: ["`), "\"]\n"), append(webhookID[provider], "--private-key", file), nil
	}
	secret = "bmFtZTpwYXNzd29yZA=="
	switch {
	case p.Scheme.Kind == signature.Basic:
		secret = "name:password"
	case p.Scheme.KeyEncoding == "hex":
		secret = "00112233445566778899aabbccddeeff"
	}
	name := strings.ToUpper(strings.ReplaceAll(provider, "-", "_")) + "_SECRET"
	return secret, nil, []string{name + "=" + secret}
}

// For each provider, a set-up can be tried without the provider.
func TestSendProvider(t *testing.T) {
	t.Parallel()
	for _, provider := range source.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			secret, args, environ := secretFor(t, provider)
			environ = append(environ, "INGEST_URL="+receive(t, provider, secret))
			out := must(t, environ, append([]string{"send", "--provider", provider, "--id", "id-1", "--type", "made.up"}, args...)...)
			if !strings.HasPrefix(out, "200 /webhooks/"+provider+" ") || strings.Count(out, "\n") != 1 || strings.Contains(out, " unknown ") {
				t.Errorf("send prints %s", out)
			}
		})
	}
}

// What is in a file is posted as it is, or in the form that the provider posts.
func TestSendProviderFile(t *testing.T) {
	t.Parallel()
	for provider, row := range map[string]struct{ body, want string }{
		"github":         {`{"action":"opened"}`, ` {"action":"opened"}`},
		"mandrill":       {`[{"event":"open"},{"event":"click"}]`, ` {"event":"click"}`},
		"twilio":         {"CallStatus=ringing&To=%2B1", ` CallStatus=ringing&To=%2B1`},
		"adyen":          {`{"notificationItems":[{"NotificationRequestItem":{"pspReference":"p1","eventCode":"CAPTURE","success":"true"}}]}`, "p1:CAPTURE:true"},
		"adyen-platform": {`{"type":"x"}`, ` {"type":"x"}`},
	} {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			secret, args, environ := secretFor(t, provider)
			environ = append(environ, "INGEST_URL="+receive(t, provider, secret))
			file := write(t, filepath.Join(t.TempDir(), "body"), row.body)
			contains(t, must(t, environ, append([]string{"send", "--provider", provider, "--file", file}, args...)...), row.want)
		})
	}
}

// The deliveries of Adyen's platform have no items to sign.
func TestSendOtherScheme(t *testing.T) {
	t.Parallel()
	secret, _, environ := secretFor(t, "adyen")
	environ = append(environ, "INGEST_URL="+receive(t, "adyen", secret))
	file := write(t, filepath.Join(t.TempDir(), "body"), `{"type":"merchant.created"}`)
	contains(t, must(t, environ, "send", "--provider", "adyen", "--file", file), " merchant.created ")
}

// Twilio signs the hash of a JSON body in the query.
func TestSendQuery(t *testing.T) {
	t.Parallel()
	secret, _, environ := secretFor(t, "twilio")
	environ = append(environ, "INGEST_URL="+receive(t, "twilio", secret))
	file := write(t, filepath.Join(t.TempDir(), "body"), `{"CallStatus":"busy"}`)
	contains(t, must(t, environ, "send", "--provider", "twilio", "--file", file), "/webhooks/twilio ", " busy ")
}

func TestSendProviderRefused(t *testing.T) {
	t.Parallel()
	file := write(t, filepath.Join(t.TempDir(), "key"), "not a key")
	environ := []string{"INGEST_URL=http://127.0.0.1:1", "ADYEN_SECRET=whsec_Canary4711"}
	for _, row := range []struct {
		want string
		args []string
	}{
		{"GITHUB_SECRET is not set: set it to a secret of the source", []string{"--provider", "github"}},
		{"OTHER is not set", []string{"--provider", "github", "--secret-env", "OTHER"}},
		{"no provider is called nobody: PROVIDERS.md lists all", []string{"--provider", "nobody"}},
		{"ADYEN_SECRET: cannot be decoded as hex", []string{"--provider", "adyen"}},
		{"wise signs with a private key: name its file with --private-key", []string{"--provider", "wise"}},
		{"key: cannot be", []string{"--provider", "wise", "--private-key", file}},
		{"say for which --provider", []string{"--new-private-key", file + ".new"}},
		{"github: signs with a shared secret", []string{"--provider", "github", "--new-private-key", file + ".new"}},
		{"want the address of ingest, without /webhooks", []string{"--url", "http://127.0.0.1:1/webhooks"}},
		{"want the address of ingest, without /webhooks", []string{"--url", "http://127.0.0.1:1/webhooks/shop"}},
		{"file exists", []string{"--provider", "wise", "--new-private-key", file}},
	} {
		refuses(t, environ, row.want, append([]string{"send"}, row.args...)...)
	}
	if text, err := os.ReadFile(file); string(text) != "not a key" || err != nil {
		t.Errorf("the key is %q now, %v", text, err)
	}
}
