package source

import (
	"maps"
	"slices"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// presets is the table of providers. It says the same as their documentation,
// which is named in package signature.
func presets() map[string]Preset {
	return map[string]Preset{
		// GitHub does not sign the id, keeps it when a person redelivers, and
		// never retries by itself.
		"github": {
			Scheme:      signature.GitHub(),
			ID:          []Locator{{Header: "X-GitHub-Delivery"}},
			Type:        []Locator{{Header: "X-GitHub-Event"}, {JSON: Pointer("/action")}},
			KeepHeaders: []string{"X-GitHub-Event", "X-GitHub-Hook-ID"},
			Replay:      time.Hour,
		},
		"standard-webhooks": {
			Scheme: signature.StandardWebhooks("webhook"),
			ID:     []Locator{{Header: "Webhook-Id"}},
			Type:   []Locator{{JSON: Pointer("/type")}},
		},
		// Stripe retries for three days and may send two events for one change.
		"stripe": {
			Scheme: signature.Stripe(),
			ID:     []Locator{{JSON: Pointer("/id")}},
			Type:   []Locator{{JSON: Pointer("/type")}},
		},
	}
}

// FindPreset returns what is known of a provider.
func FindPreset(provider string) (Preset, bool) {
	p, ok := presets()[provider]
	return p, ok
}

// Providers lists the names of all presets, sorted.
func Providers() []string { return slices.Sorted(maps.Keys(presets())) }
