// Package signature answers one question: is this delivery from that provider?
//
// It is pure: it reads no clock and no network, and the caller hands it the
// body byte for byte as it came. Every scheme here is an HMAC with a shared
// secret over a template, so a [Scheme] is data, and a new provider of this
// family needs no new code. The protocols are described by their owners:
//
//   - Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
//   - GitHub: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - Stripe: https://docs.stripe.com/webhooks/signature
package signature

import "time"

// A Scheme says how a provider signs with a shared secret: an HMAC over a
// template. [Scheme.Verifier] says what is wrong with one that makes no sense.
type Scheme struct {
	Header    string // where the signature is, or the list of them
	Algorithm string // sha1, sha256 or sha512
	Encoding  string // hex (in either case) or base64 (standard, padded)

	Prefix         string // in front of each signature: "sha256=", "v1=", "v1,"
	PrefixOptional bool   // a signature without Prefix is good too

	// Separator stands between the entries of the header. An entry without
	// Prefix is another version's and is passed over. "" means that the whole
	// header is one signature.
	Separator string

	// The timestamp is in an entry TimestampField=... of the same header, or in
	// a header of its own. It is decimal Unix seconds in either place.
	TimestampField  string
	TimestampHeader string

	IDHeader string

	// Signed is the text that is signed: a template over {id}, {timestamp} and
	// {body}. "" means "{body}". What it does not name is not authenticated.
	Signed string

	// Tolerance is how old, and how far in the future, a timestamp may be, in
	// whole seconds. 0 means that the scheme has no such check, so a delivery
	// that somebody recorded is good for ever.
	Tolerance time.Duration

	// KeyEncoding says how the key is written in the secret: "" for the
	// secret's own bytes, "hex", "base64", or "whsec" for base64 after an
	// optional "whsec_".
	KeyEncoding string
}

// tolerance is what both Stripe and Standard Webhooks recommend.
const tolerance = 5 * time.Minute

// GitHub returns the scheme of GitHub's webhooks. The older X-Hub-Signature,
// which is SHA-1 and which GitHub sends beside it, is not looked at.
func GitHub() Scheme {
	return Scheme{
		Header:    "X-Hub-Signature-256",
		Algorithm: "sha256",
		Encoding:  "hex",
		Prefix:    "sha256=",
	}
}

// Stripe returns the scheme of Stripe's webhooks. The key is the text of the
// secret as the dashboard shows it; its whsec_ is part of the key.
func Stripe() Scheme {
	return Scheme{
		Header:         "Stripe-Signature",
		Algorithm:      "sha256",
		Encoding:       "hex",
		Prefix:         "v1=",
		Separator:      ",",
		TimestampField: "t",
		Signed:         "{timestamp}.{body}",
		Tolerance:      tolerance,
	}
}

// StandardWebhooks returns the symmetric scheme (v1) of the Standard Webhooks
// specification. The headers' names start with headerPrefix, which is "webhook"
// in the specification and "svix" at many of the providers that use Svix.
func StandardWebhooks(headerPrefix string) Scheme {
	return Scheme{
		Header:          headerPrefix + "-signature",
		Algorithm:       "sha256",
		Encoding:        "base64",
		Prefix:          "v1,",
		Separator:       " ",
		TimestampHeader: headerPrefix + "-timestamp",
		IDHeader:        headerPrefix + "-id",
		Signed:          "{id}.{timestamp}.{body}",
		Tolerance:       tolerance,
		KeyEncoding:     "whsec",
	}
}
