package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// trackers keep issues, alerts and the like.
func trackers() map[string]Preset {
	return map[string]Preset{
		// webhookId is the subscription's.
		"linear": {
			Scheme:      hmacHex("Linear-Signature", ""),
			ID:          []Locator{inHeader("Linear-Delivery")},
			Type:        []Locator{inBody("/type"), optional(inBody("/action"))},
			KeepHeaders: []string{"Linear-Event"},
			Replay:      time.Hour,
			About: About{
				Title:   "Linear",
				Page:    "https://linear.app/developers/webhooks",
				Setup:   "Settings → API → Webhooks → New webhook: the address; it shows the signing secret",
				Wants:   "200",
				Timeout: "5 s",
				Retries: "3: after 1 min, 1 h and 6 h",
			},
		},
		"jira": {
			Scheme:      hmacHex("X-Hub-Signature", "sha256="),
			ID:          []Locator{inHeader("X-Atlassian-Webhook-Identifier")},
			Type:        []Locator{inBody("/webhookEvent")},
			KeepHeaders: []string{"X-Atlassian-Webhook-Retry"},
			Replay:      time.Hour,
			About: About{
				Title:   "Jira Cloud",
				Page:    "https://developer.atlassian.com/cloud/jira/platform/webhooks/",
				Setup:   "Settings → System → WebHooks → Create: the address and the secret",
				Timeout: "30 s",
				Retries: "5",
				Proof:   "vectors bitbucket/jira: Atlassian's documentation",
			},
		},
		"sentry": {
			Scheme:      hmacHex("Sentry-Hook-Signature", ""),
			ID:          []Locator{inHeader("Request-ID")},
			Type:        []Locator{inHeader("Sentry-Hook-Resource"), optional(inBody("/action"))},
			KeepHeaders: []string{"Sentry-Hook-Resource", "Sentry-Hook-Timestamp"},
			Replay:      time.Hour,
			About: About{
				Title:   "Sentry",
				Page:    "https://docs.sentry.io/organization/integrations/integration-platform/webhooks/",
				Setup:   "Settings → Developer Settings → integration: the address; the secret is the client secret",
				Timeout: "1 s",
				Retries: "none; 1000 time-outs in 24 hours unsubscribe",
			},
		},
		"pagerduty": {
			Scheme: signature.Scheme{Header: "X-PagerDuty-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Separator: ","},
			ID:     []Locator{inBody("/event/id")},
			Type:   []Locator{inBody("/event/event_type")},
			About: About{
				Title:   "PagerDuty, webhooks v3",
				Page:    "https://developer.pagerduty.com/docs/webhooks/v3-overview/",
				Setup:   "Integrations → Generic Webhooks (v3) → New webhook: the address; it shows the secret once",
				Timeout: "5 s",
				Retries: "for 48 hours on 5xx, 429 and time-outs; another 4xx is final; 3 lost in a row switch it off for a day",
				Proof:   "the vector of its own library: PagerDuty/go-pagerduty webhookv3",
			},
			FinalClientErrors: true,
		},
		// Retries count themselves in the body.
		"notion": {
			Scheme:       hmacHex("X-Notion-Signature", "sha256="),
			ID:           []Locator{inBody("/id")},
			Type:         []Locator{inBody("/type")},
			IgnoreFields: pointers("/attempt_number"),
			About: About{
				Title: "Notion",
				Page:  "https://developers.notion.com/reference/webhooks",
				Setup: "Integration → Webhooks → Create a subscription: the address; the secret is the verification token",
				Notes: "The first request brings the verification token and cannot be signed yet, so it is refused here: receive that one elsewhere, or point the address at a source with verify: none for that minute.",
			},
		},
		"workos": {
			Scheme: signature.Scheme{
				Header: "WorkOS-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Separator: ", ",
				TimestampField: "t", TimestampUnit: "ms", Signed: "{timestamp}.{body}", Tolerance: 5 * time.Minute,
			},
			ID:   []Locator{inBody("/id")},
			Type: []Locator{inBody("/event")},
			About: About{
				Title: "WorkOS",
				Page:  "https://workos.com/docs/events/data-syncing/webhooks",
				Setup: "Dashboard → Webhooks → Create webhook: the address; it shows the secret",
			},
		},
		"cal-com": {
			Scheme: hmacHex("X-Cal-Signature-256", ""),
			ID:     []Locator{content()},
			Type:   []Locator{inBody("/triggerEvent")},
			About: About{
				Title: "Cal.com",
				Page:  "https://cal.com/docs/developing/guides/automation/webhooks",
				Setup: "Settings → Developer → Webhooks → New: the address and the secret",
				Notes: "With a payload template of your own, say where id and type are in it.",
			},
		},
		"pusher": {
			Scheme:      hmacHex("X-Pusher-Signature", ""),
			ID:          []Locator{content()},
			Type:        []Locator{inBody("/events/0/name")},
			KeepHeaders: []string{"X-Pusher-Key"},
			About: About{
				Title:   "Pusher Channels",
				Page:    "https://pusher.com/docs/channels/server_api/webhooks/",
				Setup:   "App → Webhooks → Add webhook: the address; the secret is the secret of the app's token",
				Retries: "for 5 minutes, exponential",
				Proof:   "vectors pusher: pusher/pusher-http-go",
				Notes:   "One delivery may have many events, which stay together as one.",
			},
		},
	}
}
