package source

import (
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// cashiers move money.
func cashiers() map[string]Preset {
	const item = "/NotificationRequestItem" // of Adyen
	platform := signature.Scheme{Header: "HmacSignature", Algorithm: "sha256", Encoding: "base64", KeyEncoding: "hex"}
	return map[string]Preset{
		// Stripe may send two events for one change, in any order; each counts
		// how many endpoints still wait for it, which differs between retries.
		"stripe": {
			Scheme:       signature.Stripe(),
			ID:           []Locator{inBody("/id")},
			Type:         []Locator{inBody("/type")},
			Livemode:     inBody("/livemode"),
			IgnoreFields: pointers("/pending_webhooks"),
			About: About{
				Title:     "Stripe",
				Page:      "https://docs.stripe.com/webhooks",
				Setup:     "Workbench → Webhooks → Add destination: the address; the signing secret is the text that begins with whsec_",
				Retries:   "for 3 days, exponential; a few hours in a sandbox",
				Redeliver: "ask: stripe events resend ID, within 30 days",
				Proof:     "vectors stripe: stripe/stripe-go, luckyteagirl/webhook-receiver-conformance",
			},
		},
		// The body is signed as its CRC-32 alone.
		"paypal": {
			Scheme: signature.Scheme{
				Kind: signature.RSA, Header: "Paypal-Transmission-Sig", Algorithm: "sha256", Encoding: "base64",
				Signed: "{header:Paypal-Transmission-Id}|{header:Paypal-Transmission-Time}|{webhook_id}|{crc32}",
			},
			ID:     []Locator{inBody("/id")},
			Type:   []Locator{inBody("/event_type")},
			Replay: time.Hour,
			About: About{
				Title:     "PayPal",
				Page:      "https://developer.paypal.com/api/rest/webhooks/",
				Setup:     "Apps & Credentials → app → Webhooks → Add webhook: the address; its id is webhook_id of the source, and the certificate that PAYPAL-CERT-URL names, of api.paypal.com, goes into secrets as PEM",
				Retries:   "25 in 3 days",
				Redeliver: "ask: Webhooks events → Resend",
				Notes:     "The certificate is not fetched: put the new one beside the old one before PayPal changes it. A CRC-32 can be kept while a body is changed, so have https all the way, and ask PayPal for what matters.",
			},
		},
		"square": {
			Scheme: signature.Scheme{Header: "X-Square-Hmacsha256-Signature", Algorithm: "sha256", Encoding: "base64", Signed: "{url}{body}"},
			ID:     []Locator{inBody("/event_id")},
			Type:   []Locator{inBody("/type")},
			About: About{
				Title:   "Square",
				Page:    "https://developer.squareup.com/docs/webhooks/overview",
				Setup:   "Developer dashboard → Webhooks → Subscriptions: the address, also as public_url; the secret is the signature key",
				Retries: "for 24 hours, exponential",
				Proof:   "vectors square: square/square-nodejs-sdk",
				Notes:   "The address is signed: public_url must be what is written at Square, to the letter.",
			},
		},
		// The same pspReference comes once a code and outcome: an authorisation
		// and its capture are two events.
		"adyen": {
			Scheme: signature.Scheme{
				Items: "/notificationItems", SignatureAt: item + "/additionalData/hmacSignature",
				Algorithm: "sha256", Encoding: "base64", KeyEncoding: "hex", BodyUnsigned: true,
				Signed: "{" + item + "/pspReference}:{" + item + "/originalReference}:{" + item + "/merchantAccountCode}:" +
					"{" + item + "/merchantReference}:{" + item + "/amount/value}:{" + item + "/amount/currency}:" +
					"{" + item + "/eventCode}:{" + item + "/success}",
				Or: []signature.Scheme{platform},
			},
			Items:      &Locator{JSON: Pointer("/notificationItems"), Optional: true},
			ID:         []Locator{either(inBody(item+"/pspReference"), content()), optional(inBody(item + "/eventCode")), optional(inBody(item + "/success"))},
			Type:       []Locator{either(inBody(item+"/eventCode"), inBody("/type"))},
			AnswerBody: "[accepted]",
			About: About{
				Title:     "Adyen, standard webhooks",
				Page:      "https://docs.adyen.com/development-resources/webhooks/",
				Setup:     "Customer Area → Developers → Webhooks → Standard webhook: the address, method JSON; the secret is the HMAC key, hexadecimal",
				Wants:     "2xx, or the body [accepted]",
				Timeout:   "10 s",
				Retries:   "after 9, 18 and 27 s, then 2 min up to 8 h apart, for 30 days",
				Redeliver: "ask: Developers → Event logs",
				Proof:     "vectors adyen: Adyen/adyen-go-api-library, Adyen/adyen-java-api-library, Adyen's documentation",
				Notes:     "Amount, references, code and outcome are signed, the rest of an item is not. What adyen-platform is for is taken too.",
			},
		},
		"adyen-platform": {
			Scheme: platform,
			ID:     []Locator{content()},
			Type:   []Locator{optional(inBody("/type"))},
			About: About{
				Title:   "Adyen for Platforms, and management webhooks",
				Page:    "https://docs.adyen.com/development-resources/webhooks/",
				Setup:   "Customer Area → Developers → Webhooks: the address; the secret is the HMAC key, hexadecimal",
				Wants:   "2xx",
				Timeout: "10 s",
				Retries: "after 9, 18 and 27 s, then 2 min up to 8 h apart, for 30 days",
				Proof:   "vectors adyen: adyen-09 (HmacSignature), Adyen/adyen-go-api-library",
			},
		},
		// notification_id is another one for each destination.
		"paddle": {
			Scheme: signature.Scheme{
				Header: "Paddle-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "h1=", Separator: ";",
				TimestampField: "ts", Signed: "{timestamp}:{body}", Tolerance: 5 * time.Minute,
			},
			ID:   []Locator{inBody("/event_id")},
			Type: []Locator{inBody("/event_type")},
			About: About{
				Title:     "Paddle Billing",
				Page:      "https://developer.paddle.com/webhooks/overview",
				Setup:     "Developer tools → Notifications → New destination: the address; the secret begins with pdl_ntfset_",
				Timeout:   "5 s",
				Retries:   "60 in 3 days; 3 in 15 minutes in the sandbox",
				Redeliver: "ask: Notifications → View logs → Resend",
				Proof:     "vectors paddle: PaddleHQ/paddle-go-sdk",
			},
		},
		"razorpay": {
			Scheme: hmacHex("X-Razorpay-Signature", ""),
			ID:     []Locator{inHeader("X-Razorpay-Event-Id")},
			Type:   []Locator{optional(inBody("/event"))},
			Replay: time.Hour,
			About: About{
				Title:   "Razorpay",
				Page:    "https://razorpay.com/docs/webhooks/",
				Setup:   "Account & Settings → Webhooks → Add new webhook: the address and the secret",
				Timeout: "5 s",
				Retries: "for 24 hours, then the webhook is disabled",
				Proof:   "its own library, razorpay/razorpay-go; the body of its vector is not among the recorded ones",
			},
		},
		// data.id is the transaction's, which has several events.
		"paystack": {
			Scheme: signature.Scheme{Header: "X-Paystack-Signature", Algorithm: "sha512", Encoding: "hex"},
			ID:     []Locator{content()},
			Type:   []Locator{inBody("/event")},
			About: About{
				Title:   "Paystack",
				Page:    "https://paystack.com/docs/payments/webhooks/",
				Setup:   "Settings → API Keys & Webhooks → webhook URL; the secret is the secret key, sk_…",
				Retries: "every 3 minutes 4 times, then hourly for 72 hours; hourly for 10 hours in test mode",
			},
		},
		// Two headers come for a day after the secret was changed.
		"mollie": {
			Scheme: signature.Scheme{Header: "X-Mollie-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256=", Separator: ","},
			ID:     []Locator{inBody("/id")},
			Type:   []Locator{inBody("/type")},
			About: About{
				Title:   "Mollie, next-gen webhooks",
				Page:    "https://docs.mollie.com/reference/webhooks-new",
				Setup:   "Developers → Webhooks → Create webhook: the address; it shows the signing secret",
				Wants:   "200",
				Timeout: "15 s",
				Retries: "10 in 26 hours",
				Notes:   "The classic webhooks, a form with the id of a payment, are another thing: see below.",
			},
		},
		// Retries count themselves in the body.
		"coinbase-commerce": {
			Scheme:       hmacHex("X-CC-Webhook-Signature", ""),
			ID:           []Locator{either(inBody("/event/id"), content())},
			Type:         []Locator{optional(inBody("/event/type"))},
			IgnoreFields: pointers("/id", "/attempt_number", "/scheduled_for"),
			About: About{
				Title:   "Coinbase Commerce",
				Page:    "https://docs.cdp.coinbase.com/commerce/webhooks",
				Setup:   "Settings → Notifications → Add an endpoint: the address; the secret is the webhook shared secret",
				Retries: "for 3 days, exponential, an hour at most",
				Proof:   "vectors coinbase-commerce: coinbase/coinbase-commerce-node",
			},
		},
		"gocardless": {
			Scheme: hmacHex("Webhook-Signature", ""),
			Items:  &Locator{JSON: Pointer("/events"), Optional: true},
			ID:     []Locator{either(inBody("/id"), content())},
			Type:   []Locator{optional(inBody("/resource_type")), inBody("/action")},
			About: About{
				Title:     "GoCardless",
				Page:      "https://developer.gocardless.com/getting-started/staying-up-to-date-with-webhooks",
				Setup:     "Developers → Create → Webhook endpoint: the address and the secret",
				Retries:   "8, the intervals growing",
				Redeliver: "ask: Developers → Webhooks → Retry",
				Proof:     "the vector of its own library: gocardless/gocardless-pro-python",
			},
		},
		"wise": {
			Scheme: signature.Scheme{Kind: signature.RSA, Header: "X-Signature-SHA256", Algorithm: "sha256", Encoding: "base64"},
			ID:     []Locator{inHeader("X-Delivery-Id")},
			Type:   []Locator{inBody("/event_type")},
			Replay: time.Hour,
			About: About{
				Title:   "Wise",
				Page:    "https://docs.wise.com/guides/developer/webhooks",
				Setup:   "Settings → API tokens and webhooks → Create webhook: the address; put Wise's public key into secrets",
				Wants:   "2xx",
				Timeout: "5 s",
				Retries: "25 in 2 weeks",
				Proof:   "vectors wise: the sandbox key and example that Wise publishes, in webhook-co/webhook",
			},
		},
		"checkout": {
			Scheme: hmacHex("Cko-Signature", ""),
			ID:     []Locator{inBody("/id")},
			Type:   []Locator{inBody("/type")},
			About: About{
				Title: "Checkout.com",
				Page:  "https://www.checkout.com/docs/developer-resources/webhooks",
				Setup: "Settings → Channels or Workflows → webhook: the address; the secret is the signature key",
			},
		},
	}
}
