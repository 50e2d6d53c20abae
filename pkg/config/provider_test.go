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
