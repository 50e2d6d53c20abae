package source

import (
	"net/http"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// The retries of Svix, and what it does about failures.
const svixRetries = "after 5 s, 5 and 30 min, 2, 5, 10 and 10 h; off after 5 days"

// standards follow the Standard Webhooks specification, or another that is not
// one provider's.
func standards() map[string]Preset {
	return map[string]Preset{
		"standard-webhooks": standard("webhook", "/type", About{
			Title:   "Standard Webhooks",
			Page:    "https://www.standardwebhooks.com",
			Setup:   "wherever a provider of this kind asks for an endpoint: the address; the secret begins with whsec_, a public key with whpk_",
			Timeout: "15 to 30 s",
			Retries: "for about 3 days, by the specification",
			Proof:   "vectors standard-webhooks: standard-webhooks/standard-webhooks",
		}),
		"svix": standard("svix", "/type", About{
			Title:     "Svix",
			Page:      "https://docs.svix.com/receiving/introduction",
			Setup:     "consumer portal → Endpoints → Add endpoint: the address; the signing secret begins with whsec_",
			Timeout:   "15 s",
			Retries:   svixRetries,
			Redeliver: "ask: the endpoint → Recover or Replay",
			Proof:     "vectors svix: svix/svix-webhooks",
		}),
		"clerk": standard("svix", "/type", About{
			Title:     "Clerk",
			Page:      "https://clerk.com/docs/webhooks/overview",
			Setup:     "Dashboard → Webhooks → Add endpoint: the address; the signing secret begins with whsec_",
			Timeout:   "15 s",
			Retries:   svixRetries,
			Redeliver: "ask: the endpoint → Message attempts → Replay",
			Proof:     "vectors svix: it sends by Svix",
		}),
		"resend": standard("svix", "/type", About{
			Title:     "Resend",
			Page:      "https://resend.com/docs/dashboard/webhooks/introduction",
			Setup:     "Webhooks → Add webhook: the address; the signing secret begins with whsec_",
			Timeout:   "15 s",
			Retries:   svixRetries,
			Redeliver: "ask: the webhook → the message → Replay",
			Proof:     "vectors svix: it sends by Svix",
		}),
		"openai": standard("webhook", "/type", About{
			Title:   "OpenAI",
			Page:    "https://platform.openai.com/docs/guides/webhooks",
			Setup:   "Project settings → Webhooks → Create: the address; it shows the signing secret once",
			Retries: "for 72 hours, exponential",
			Proof:   "vectors standard-webhooks: its library checks with that one",
		}),
		"anthropic": standard("webhook", "/data/type", About{
			Title: "Anthropic, managed agents",
			Page:  "https://platform.claude.com/docs/en/managed-agents/webhooks",
			Setup: "Console → Manage → Webhooks: the address; it shows the signing secret, which begins with whsec_",
			Proof: "vectors standard-webhooks: its library checks with that one",
		}),
		// The same prediction has several of them: the id is the delivery's.
		"replicate": standard("webhook", "/status", About{
			Title: "Replicate",
			Page:  "https://replicate.com/docs/topics/webhooks",
			Setup: "webhook of a prediction: the address; GET /v1/webhooks/default/secret tells the secret",
		}),
		"brex": standard("webhook", "/event_type", About{
			Title: "Brex",
			Page:  "https://developer.brex.com/openapi/webhooks_api/",
			Setup: "POST /v1/webhooks with the address; GET /v1/webhooks/secrets tells the secret",
		}),
		"convoy": {
			Scheme: convoy(),
			ID:     []Locator{content()},
			Type:   []Locator{either(inBody("/event_type"), inBody("/event"))},
			About: About{
				Title: "Convoy",
				Page:  "https://docs.getconvoy.io/product-manual/signatures",
				Setup: "endpoint: the address; the secret is the endpoint's",
				Proof: "vectors convoy: frain-dev/convoy",
			},
		},
		"adcp": {
			Scheme: signature.Scheme{
				Header: "X-ADCP-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "sha256=",
				TimestampHeader: "X-ADCP-Timestamp", Signed: "{timestamp}.{body}", Tolerance: 5 * time.Minute,
			},
			ID:   []Locator{inBody("/idempotency_key")},
			Type: []Locator{inBody("/task_type")},
			About: About{
				Title: "AdCP, Ad Context Protocol",
				Page:  "https://docs.adcontextprotocol.org",
				Setup: "push_notification_config of a task: the address as url, the secret as credentials of the scheme HMAC-SHA256",
				Proof: "vectors adcp: adcontextprotocol/adcp",
			},
		},
	}
}

// standard is a provider that signs as Standard Webhooks says. The headers'
// names begin with prefix, and the type is where typ points.
func standard(prefix, typ string, about About) Preset {
	s := signature.StandardWebhooks(prefix)
	return Preset{Scheme: s, ID: []Locator{inHeader(http.CanonicalHeaderKey(s.IDHeader))}, Type: []Locator{inBody(typ)}, About: about}
}

// convoy signs as a project is set up: simply or with the time, with SHA-256 or
// SHA-512, in hex or base64. All of them look different.
func convoy() signature.Scheme {
	simple := signature.Scheme{Header: "X-Convoy-Signature", Algorithm: "sha256", Encoding: "hex"}
	advanced := signature.Scheme{
		Header: simple.Header, Algorithm: "sha256", Encoding: "hex", Prefix: "v1=", Separator: ",",
		TimestampField: "t", Signed: "{timestamp},{body}", Tolerance: 5 * time.Minute,
	}
	all := []signature.Scheme{advanced, simple}
	for _, s := range all[:2] {
		for _, other := range [][2]string{{"sha256", "base64"}, {"sha512", "hex"}, {"sha512", "base64"}} {
			s.Algorithm, s.Encoding = other[0], other[1]
			all = append(all, s)
		}
	}
	first := all[0]
	first.Or = all[1:]
	return first
}
