// Package signature answers one question: is this delivery from that provider?
//
// It is pure: it reads no clock and no network, and the caller hands it the
// body byte for byte as it came. How a provider signs is data, a [Scheme]; code
// is here only for each family of schemes, which is a [Kind] of them. So a new
// provider of a family that is there needs no new code. The protocols that have
// a function here are described by their owners:
//
//   - Standard Webhooks: https://github.com/standard-webhooks/standard-webhooks/blob/main/spec/standard-webhooks.md
//   - GitHub: https://docs.github.com/en/webhooks/using-webhooks/validating-webhook-deliveries
//   - Stripe: https://docs.stripe.com/webhooks/signature
package signature

import "time"

// A Kind is a family of schemes.
type Kind string

// The kinds. All but Token and Basic sign the template Scheme.Signed.
const (
	HMAC    Kind = ""        // an HMAC with a shared secret
	Hash    Kind = "hash"    // a plain hash of a text with the secret in it
	Ed25519 Kind = "ed25519" // the secrets are public keys
	ECDSA   Kind = "ecdsa"   // likewise; the signature is in DER
	RSA     Kind = "rsa"     // likewise; PKCS #1 v1.5
	Token   Kind = "token"   // the secret itself is in the header: nothing is signed
	Basic   Kind = "basic"   // likewise, as user:password
)

// A Scheme says how a provider signs. [Scheme.Verifier] says what is wrong with
// one that makes no sense.
type Scheme struct {
	Kind Kind

	// Header is where the signature is, or the list of them. There may be more
	// in MoreHeaders; any of them is good. A delivery that has only OldHeader is
	// signed in a way that is not good enough.
	Header      string
	MoreHeaders []string
	OldHeader   string

	// SignatureAt is a JSON Pointer to the signature if that is in the body
	// instead. If the body is a form, it is the field that is named as the
	// pointer's last part; so are all values of the body below.
	SignatureAt string

	// Items is a JSON Pointer to an array in the body if each item of it has a
	// signature of its own: all must be good. Pointers then start at the item.
	Items string

	Algorithm string // sha1, sha256 or sha512; Ed25519, Token and Basic have none
	Encoding  string // hex (in either case) or base64 (standard, padded)

	Prefix         string // in front of each signature: "sha256=", "v1=", "v1,", "Bearer "
	PrefixOptional bool   // a signature without Prefix is good too

	// PublicPrefix is in front of those signatures that are made with an
	// Ed25519 key, whose public half is a secret that begins with whpk_. Only
	// HMAC schemes may have it.
	PublicPrefix string

	// Separator stands between the entries of the header. An entry without
	// Prefix is another version's and is passed over. "" means that the whole
	// header is one signature.
	Separator string

	// The timestamp is in an entry TimestampField=... of the same header, in a
	// header of its own, or in the body at the JSON Pointer TimestampAt.
	// TimestampUnit is "" for decimal Unix seconds, "ms" for milliseconds, or
	// "rfc3339". It is never guessed.
	TimestampField  string
	TimestampHeader string
	TimestampAt     string
	TimestampUnit   string

	IDHeader string

	// Signed is the text that is signed: a template over {body}, {id},
	// {timestamp}, {url} and {method}; {form}, which is the fields of the body,
	// sorted, names and values without anything between them; {sha256}, {crc32}
	// of the body, in hex and in decimal; {secret}; {webhook_id}; {header:Name};
	// and {/json/pointer} for a value in the body, which is empty if it is not
	// there. "" means "{body}". What it does not name is not authenticated.
	Signed string

	// BodyUnsigned says aloud that Signed does not cover the body, or only some
	// values of it: anybody on the way can change the rest.
	BodyUnsigned bool

	WebhookID string // what the provider calls this webhook, if Signed has {webhook_id}

	// {url} is as the provider calls it. PortOptional tries it without its port
	// and with the standard port too. The percent escapes of the characters in
	// URLDecoded are decoded in it. URLBodyHash is a parameter of its query that
	// has the SHA-256 of the body in hex; where it is there, {form} is empty.
	PortOptional bool
	URLDecoded   string
	URLBodyHash  string

	// Tolerance is how old, and how far in the future, a timestamp may be, in
	// whole seconds. 0 means that the scheme has no such check, so a delivery
	// that somebody recorded is good for ever.
	Tolerance time.Duration

	// KeyEncoding says how the key is written in the secret: "" for the
	// secret's own bytes, "hex", "base64", or "whsec" for base64 after an
	// optional "whsec_". Public keys tell that themselves: PEM (a certificate
	// too), or base64 of the DER form, or, for Ed25519, 32 bytes in hex or base64.
	KeyEncoding string

	// Or are other schemes of the same provider. The next is tried if the
	// signature of the one before is not there or has another form.
	Or []Scheme
}

// tolerance is what both Stripe and Standard Webhooks recommend.
const tolerance = 5 * time.Minute

// SetTolerance sets Tolerance in each scheme, also in Or, that has a timestamp,
// and reports whether there was one.
func (s *Scheme) SetTolerance(tolerance time.Duration) bool {
	timed := s.TimestampField+s.TimestampHeader+s.TimestampAt != ""
	if timed {
		s.Tolerance = tolerance
	}
	for i := range s.Or {
		timed = s.Or[i].SetTolerance(tolerance) || timed
	}
	return timed
}

// GitHub returns the scheme of GitHub's webhooks. The older X-Hub-Signature,
// which is SHA-1 and which GitHub sends beside it, is not good enough.
func GitHub() Scheme {
	return Scheme{
		Header:    "X-Hub-Signature-256",
		OldHeader: "X-Hub-Signature",
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

// StandardWebhooks returns the scheme of the Standard Webhooks specification:
// v1 with whsec_ secrets, and v1a with whpk_ public keys. The headers' names
// start with headerPrefix, which is "webhook" in the specification and "svix" at
// many of the providers that use Svix.
func StandardWebhooks(headerPrefix string) Scheme {
	return Scheme{
		Header:          headerPrefix + "-signature",
		Algorithm:       "sha256",
		Encoding:        "base64",
		Prefix:          "v1,",
		PublicPrefix:    "v1a,",
		Separator:       " ",
		TimestampHeader: headerPrefix + "-timestamp",
		IDHeader:        headerPrefix + "-id",
		Signed:          "{id}.{timestamp}.{body}",
		Tolerance:       tolerance,
		KeyEncoding:     "whsec",
	}
}
