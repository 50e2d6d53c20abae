package config_test

import (
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/config"
)

// A provider that nobody knows is a typing error, or one to describe.
func TestUnknownProvider(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"GitHub":                  "did you mean github?",
		"gihtub":                  "did you mean github?",
		"standard_webhooks":       "did you mean standard-webhooks?",
		"coinbase.commerce":       "did you mean coinbase-commerce?",
		"woo":                     "describe another one under verify",
		"no-such-provider":        "describe another one under verify",
		"":                        "describe another one under verify",
		strings.Repeat("x", 1000): "describe another one under verify",
	} {
		_, err := config.ParseSources("f.yaml", []byte("sources:\n  a:\n    provider: \""+name+"\"\n    secrets: [x]\n"), func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), "f.yaml:3: source a: provider: no provider is called that") || !strings.Contains(err.Error(), want) {
			t.Errorf("provider %q: %v, want %s", name, err, want)
		}
	}
}

// A secret that cannot be one of the provider's stops the start, and the message
// says whose it is and what it should be. It does not quote the secret.
func TestWrongSecretOfProvider(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ provider, secret, want string }{
		{"adyen", "whsec_Canary4711", "cannot be decoded as hex"},
		{"adyen-platform", "Canary4711", "cannot be decoded as hex"},
		{"standard-webhooks", "Canary_4711", "want whsec_ and base64"},
		{"clerk", "whsec_Canary_4711", "want whsec_ and base64"},
		{"discord", "Canary4711", "secrets"},
		{"wise", "Canary4711", "secrets"},
		{"sendgrid", "Canary4711", "secrets"},
		{"sparkpost", "Canary4711", "want user:password"},
		{"github", " Canary4711", "white space before or after it"},
		{"github", "", "secrets"},
		{"github", "${CANARY4711}", "CANARY4711 is not set: set it"},
	} {
		_, err := config.ParseSources("f.yaml", []byte("sources:\n  mine:\n    provider: "+row.provider+"\n    secrets: [\""+row.secret+"\"]\n"),
			func(string) (string, bool) { return "", false })
		if err == nil || !strings.Contains(err.Error(), "f.yaml:4: source mine: secrets: ") || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s with %q: %v, want %s", row.provider, row.secret, err, row.want)
		} else if strings.Contains(err.Error(), "Canary") {
			t.Errorf("%s: the message tells the secret: %v", row.provider, err)
		}
	}
}
