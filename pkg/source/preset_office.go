package source

import (
	"strconv"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// offices sell, plan, sign and keep books.
func offices() map[string]Preset {
	return map[string]Preset{
		// X-Shopify-Webhook-Id is another one for each subscription.
		"shopify": {
			Scheme:      hmac64("X-Shopify-Hmac-Sha256"),
			ID:          []Locator{inHeader("X-Shopify-Event-Id")},
			Type:        []Locator{inHeader("X-Shopify-Topic")},
			KeepHeaders: []string{"X-Shopify-Topic", "X-Shopify-Shop-Domain", "X-Shopify-Triggered-At", "X-Shopify-API-Version"},
			Replay:      time.Hour,
			About: About{
				Title:   "Shopify",
				Page:    "https://shopify.dev/docs/apps/build/webhooks",
				Setup:   "shopify.app.toml or Settings → Notifications → Webhooks: the address, format JSON; the secret is the app's client secret, or the one that the page shows",
				Wants:   "200",
				Timeout: "5 s, of which 1 s to connect",
				Retries: "8 in 4 hours, then the subscription is deleted",
				Proof:   "vectors shopify: bold-commerce/go-shopify",
				Notes:   "Some bodies say only which thing it was: a second one within the hour is taken for a replay. replay_window: 0 turns that off.",
			},
		},
		// X-WC-Webhook-ID is the subscription's. The delivery's id is new at each
		// attempt, but there is only one. Without a replay check, because to delete,
		// restore and delete a thing again makes the same bytes.
		"woocommerce": {
			Scheme:      hmac64("X-WC-Webhook-Signature"),
			ID:          []Locator{inHeader("X-WC-Webhook-Delivery-ID")},
			Type:        []Locator{inHeader("X-WC-Webhook-Topic")},
			KeepHeaders: []string{"X-WC-Webhook-Topic", "X-WC-Webhook-Source"},
			Content:     []Kind{JSON, Form},
			About: About{
				Title:   "WooCommerce",
				Page:    "https://woocommerce.com/document/webhooks/",
				Setup:   "WooCommerce → Settings → Advanced → Webhooks → Add webhook: the address and the secret",
				Timeout: "60 s",
				Retries: "none; off after 5 failures in a row",
				Notes:   "A copy that somebody recorded is another event if it has another X-WC-Webhook-Delivery-ID, which is not signed.",
			},
		},
		"xero": {
			Scheme:    hmac64("X-Xero-Signature"),
			Items:     list("/events"),
			ID:        []Locator{inBody("/tenantId"), inBody("/resourceId"), inBody("/eventType"), inBody("/eventDateUtc")},
			Type:      []Locator{inBody("/eventCategory"), inBody("/eventType")},
			Handshake: HandshakeXero,
			About: About{
				Title:   "Xero",
				Page:    "https://developer.xero.com/documentation/guides/webhooks/overview/",
				Setup:   "My Apps → app → Webhooks: the address, once ingest runs; the secret is the webhooks key",
				Wants:   "200 without a body; 401 to a wrong signature",
				Timeout: "5 s",
				Retries: "for 24 hours",
			},
		},
		// Retries count themselves in the body.
		"docusign": {
			Scheme: signature.Scheme{
				Header: "X-DocuSign-Signature-1", MoreHeaders: numbered("X-DocuSign-Signature-", 2, 8), Algorithm: "sha256", Encoding: "base64",
			},
			ID:           []Locator{inBody("/data/envelopeId"), inBody("/event"), optional(inBody("/data/recipientId")), inBody("/generatedDateTime")},
			Type:         []Locator{inBody("/event")},
			IgnoreFields: pointers("/retryCount"),
			About: About{
				Title:     "DocuSign Connect",
				Page:      "https://developers.docusign.com/platform/webhooks/connect/",
				Setup:     "Settings → Connect → Add configuration: the address, data format REST v2.1, HMAC on; the secret is the HMAC key",
				Retries:   "for hours up to days, by the configuration",
				Redeliver: "ask: Connect → Failures → Republish",
			},
		},
		"calendly": {
			Scheme: signature.Scheme{
				Header: "Calendly-Webhook-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Separator: ",",
				TimestampField: "t", Signed: "{timestamp}.{body}", Tolerance: 5 * time.Minute,
			},
			ID:   []Locator{inBody("/event"), inBody("/payload/uri"), inBody("/created_at")},
			Type: []Locator{inBody("/event")},
			About: About{
				Title:   "Calendly",
				Page:    "https://developer.calendly.com/api-docs/ZG9jOjE2OTQ0NDA3-webhooks-overview",
				Setup:   "POST /webhook_subscriptions with the address as url and the secret as signing_key",
				Retries: "for 24 hours, exponential, then the subscription is disabled",
			},
		},
		"typeform": {
			Scheme: signature.Scheme{Header: "Typeform-Signature", Algorithm: "sha256", Encoding: "base64", Prefix: "sha256="},
			ID:     []Locator{inBody("/event_id")},
			Type:   []Locator{inBody("/event_type")},
			About: About{
				Title:   "Typeform",
				Page:    "https://www.typeform.com/developers/webhooks/",
				Setup:   "Form → Connect → Webhooks → Add a webhook: the address and the secret",
				Timeout: "30 s",
			},
		},
		// It says only whose files changed, so each delivery is an event of its own.
		"dropbox": {
			Scheme:    hmacHex("X-Dropbox-Signature", ""),
			ID:        []Locator{{Delivery: true}},
			Type:      []Locator{{Text: "file_change"}},
			Handshake: HandshakeDropbox,
			About: About{
				Title:   "Dropbox",
				Page:    "https://www.dropbox.com/developers/reference/webhooks",
				Setup:   "App Console → app → Webhooks: the address, once ingest runs; the secret is the app secret",
				Timeout: "10 s",
				Notes:   "There is no id, and the same bytes come for each change: every delivery is a new event, so the handler has to ask Dropbox what changed and do that once.",
			},
		},
	}
}

// numbered are header names with the numbers from first to last behind them.
func numbered(name string, first, last int) []string {
	var names []string
	for i := first; i <= last; i++ {
		names = append(names, name+strconv.Itoa(i))
	}
	return names
}
