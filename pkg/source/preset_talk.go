package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// talkers carry messages and calls between people.
func talkers() map[string]Preset {
	return map[string]Preset{
		// Commands and buttons come as forms and have no event_id.
		"slack": {
			Scheme: signature.Scheme{
				Header: "X-Slack-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v0=",
				TimestampHeader: "X-Slack-Request-Timestamp", Signed: "v0:{timestamp}:{body}", Tolerance: 5 * time.Minute,
			},
			ID:           []Locator{either(inBody("/event_id"), content())},
			Type:         []Locator{optional(inBody("/type")), optional(inBody("/event/type"))},
			Content:      []Kind{JSON, Form},
			PayloadField: "payload",
			Handshake:    HandshakeSlack,
			About: About{
				Title:   "Slack",
				Page:    "https://docs.slack.dev/apis/events-api/",
				Setup:   "App → Event Subscriptions: the address, once ingest runs; the secret is the signing secret of Basic Information",
				Timeout: "3 s",
				Retries: "3: at once, after 1 min, after 5 min; off below 5 % of success in an hour",
				Proof:   "vectors slack: Slack's documentation, slack-go/slack",
				Notes:   "One message may come as several events, each with an id of its own: make the effect idempotent by what it is about.",
			},
		},
		// Interactions want their answer in the response, which is not ours to
		// give; webhook events have no id and a time in the body.
		"discord": {
			Scheme:    signature.Scheme{Kind: signature.Ed25519, Header: "X-Signature-Ed25519", Encoding: "hex", TimestampHeader: "X-Signature-Timestamp", Signed: "{timestamp}{body}"},
			ID:        []Locator{content()},
			Type:      []Locator{optional(inBody("/event/type"))},
			Handshake: HandshakeDiscord,
			About: About{
				Title:   "Discord, webhook events",
				Page:    "https://docs.discord.com/developers/events/webhook-events",
				Setup:   "Developer portal → Webhooks: the address, once ingest runs; put the application's public key into secrets",
				Timeout: "3 s",
				Proof:   "vectors discord: webhook-co/webhook",
				Notes:   "It sends wrong signatures on purpose and wants 401.",
			},
		},
		// The token of the header stays the same when Twilio tries again; ids of
		// the body are those of the call or message.
		"twilio": {
			Scheme: signature.Scheme{
				Header: "X-Twilio-Signature", Algorithm: "sha1", Encoding: "base64", Signed: "{url}{form}", PortOptional: true, URLBodyHash: "bodySHA256",
			},
			ID:      []Locator{either(inHeader("I-Twilio-Idempotency-Token"), content())},
			Content: []Kind{Form, JSON},
			Type:    []Locator{either(inForm("CallStatus"), inForm("MessageStatus"), inForm("SmsStatus"), inBody("/CallStatus"), inBody("/MessageStatus"), inBody("/SmsStatus"))},
			About: About{
				Title:   "Twilio",
				Page:    "https://www.twilio.com/docs/usage/webhooks",
				Setup:   "the number or service → status callback: the address, also as public_url; the secret is the auth token",
				Timeout: "15 s",
				Retries: "once, if it cannot connect; more with #rc=… behind the address",
				Proof:   "vectors twilio: twilio/twilio-go, Twilio's documentation",
				Notes:   "The address is signed: public_url must be what is written at Twilio, to the letter. An incoming call wants TwiML, which this is not.",
			},
		},
		"intercom": {
			Scheme:       signature.Scheme{Header: "X-Hub-Signature", Algorithm: "sha1", Encoding: "hex", Prefix: "sha1="},
			ID:           []Locator{inBody("/id")},
			Type:         []Locator{inBody("/topic")},
			IgnoreFields: pointers("/delivery_attempts", "/delivery_status", "/delivered_at"),
			About: About{
				Title:   "Intercom",
				Page:    "https://developers.intercom.com/docs/webhooks",
				Setup:   "Developer Hub → app → Webhooks: the address; the secret is the app's client secret",
				Timeout: "5 s",
				Retries: "1 after a minute; paused at 1000 errors in 15 min, suspended after 7 days",
			},
		},
		"zendesk": {
			Scheme: signature.Scheme{
				Header: "X-Zendesk-Webhook-Signature", Algorithm: "sha256", Encoding: "base64",
				TimestampHeader: "X-Zendesk-Webhook-Signature-Timestamp", TimestampUnit: "rfc3339", Signed: "{timestamp}{body}", Tolerance: 5 * time.Minute,
			},
			ID:     []Locator{inHeader("X-Zendesk-Webhook-Invocation-Id")},
			Type:   []Locator{optional(inBody("/type"))},
			Replay: time.Hour,
			About: About{
				Title:   "Zendesk",
				Page:    "https://developer.zendesk.com/documentation/webhooks/",
				Setup:   "Admin Center → Apps and integrations → Webhooks → Create webhook: the address, JSON; then Reveal secret",
				Timeout: "12 s",
				Retries: "a few; a circuit breaker pauses a hook that fails",
				Proof:   "vectors zendesk: a public conformance test",
			},
		},
		"line": {
			Scheme: signature.Scheme{Header: "X-Line-Signature", Algorithm: "sha256", Encoding: "base64"},
			Items:  list("/events"),
			ID:     []Locator{inBody("/webhookEventId")},
			Type:   []Locator{inBody("/type")},
			About: About{
				Title:   "LINE",
				Page:    "https://developers.line.biz/en/docs/messaging-api/receiving-messages/",
				Setup:   "Developers console → Messaging API → Webhook URL: the address; the secret is the channel secret",
				Retries: "only with Webhook redelivery on",
				Proof:   "vectors line: line/line-bot-sdk-python",
				Notes:   "A redelivered event differs in deliveryContext; its id is the same.",
			},
		},
		"telegram": {
			Scheme: tokenIn("X-Telegram-Bot-Api-Secret-Token"),
			ID:     []Locator{number(inBody("/update_id"))},
			Type:   []Locator{{Text: "update"}},
			About: About{
				Title:   "Telegram bots",
				Page:    "https://core.telegram.org/bots/api#setwebhook",
				Setup:   "call setWebhook with the address as url and the secret as secret_token",
				Retries: "a reasonable amount, Telegram says",
				Notes:   "The token covers no body: use https all the way.",
			},
		},
		"zoom": {
			Scheme: signature.Scheme{
				Header: "X-Zm-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v0=",
				TimestampHeader: "X-Zm-Request-Timestamp", Signed: "v0:{timestamp}:{body}",
			},
			ID:        []Locator{content()},
			Type:      []Locator{inBody("/event")},
			Handshake: HandshakeZoom,
			About: About{
				Title:   "Zoom",
				Page:    "https://developers.zoom.us/docs/api/webhooks/",
				Setup:   "App → Features → Access → Event subscriptions: the address, once ingest runs; the secret is the secret token",
				Wants:   "200 or 204",
				Timeout: "3 s",
				Retries: "3: after 5, 20 and 60 min",
			},
		},
		"meta": {
			Scheme:    hmacHex("X-Hub-Signature-256", "sha256="),
			Items:     list("/entry"),
			ID:        []Locator{content()},
			Type:      []Locator{envelope("/object"), optional(inBody("/changes/0/field"))},
			Handshake: HandshakeMeta,
			About: About{
				Title:   "Meta: Facebook, Instagram, Messenger",
				Page:    "https://developers.facebook.com/docs/graph-api/webhooks/getting-started",
				Setup:   "App → Webhooks: the address and the text of verify_token, once ingest runs; the secret is the app secret",
				Timeout: "a few seconds",
				Retries: "for 36 hours",
			},
		},
		"whatsapp": {
			Scheme:    hmacHex("X-Hub-Signature-256", "sha256="),
			Items:     list("/entry"),
			ID:        []Locator{content()},
			Type:      []Locator{envelope("/object"), optional(inBody("/changes/0/field"))},
			Handshake: HandshakeMeta,
			About: About{
				Title:   "WhatsApp Business Platform",
				Page:    "https://developers.facebook.com/docs/whatsapp/cloud-api/guides/set-up-webhooks",
				Setup:   "App → WhatsApp → Configuration: the address and the text of verify_token, once ingest runs; the secret is the app secret",
				Timeout: "a few seconds",
				Retries: "for up to 7 days",
			},
		},
		// Workflows post one object without an eventId.
		"hubspot": {
			Scheme: signature.Scheme{
				Header: "X-HubSpot-Signature-v3", Algorithm: "sha256", Encoding: "base64",
				TimestampHeader: "X-HubSpot-Request-Timestamp", TimestampUnit: "ms", Signed: "{method}{url}{body}{timestamp}",
				URLDecoded: ":/?@!$'()*,;", Tolerance: 5 * time.Minute,
				Or: []signature.Scheme{{ // of workflows
					Kind: signature.Hash, Header: "X-HubSpot-Signature", Algorithm: "sha256", Encoding: "hex", Signed: "{secret}{method}{url}{body}",
				}},
			},
			Items: list(""),
			ID:    []Locator{either(number(inBody("/eventId")), content())},
			Type:  []Locator{optional(inBody("/subscriptionType"))},
			About: About{
				Title:   "HubSpot",
				Page:    "https://developers.hubspot.com/docs/api-reference/webhooks-webhooks-v3/guide",
				Setup:   "App → Webhooks → Target URL: the address, also as public_url; the secret is the app's client secret",
				Timeout: "5 s",
				Retries: "10 in 24 hours",
				Proof:   "vectors hubspot: HubSpot/hubspot-api-nodejs, for the older signature; the newer follows its documentation",
				Notes:   "The address is signed: public_url must be what is written at HubSpot, to the letter. The older signature is a plain hash that begins with the secret, so who has one delivery can append to its body.",
			},
		},
	}
}
