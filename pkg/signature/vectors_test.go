package signature_test

import (
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
)

// A vector is one delivery with a verdict, recorded from public documents and tests.
type vector struct {
	ID, Provider, Scheme string
	Method, URL          string
	Headers              map[string]string
	Body                 string
	BodyBase64           string                               `json:"body_base64"`
	BodyRef              *struct{ Repo, Path, SHA256 string } `json:"body_ref"`
	Secret               string
	Timestamp            any
	Now                  *int64
	Tolerance            int64 `json:"tolerance_seconds"`
	Valid                bool
	RejectReason         string `json:"reject_reason"`
}

// wantVectors is how many vectors have a body that is there.
const wantVectors = 145

func TestVectors(t *testing.T) {
	dir := sharedFolder(t)
	var vectors []vector
	readJSON(t, filepath.Join(dir, "vectors", "signatures.json"), &vectors)
	bodies := readManifest(t, dir)

	var ran, noBody int
	for _, vec := range vectors {
		t.Run(vec.ID, func(t *testing.T) {
			scheme, ours := schemeOf(vec)
			if !ours {
				t.Fatalf("no scheme for %q", vec.Scheme)
			}
			body, found := bodyOf(t, vec, bodies)
			if !found {
				noBody++
				t.Skipf("its body is not here, only its name: %s/%s", vec.BodyRef.Repo, vec.BodyRef.Path)
			}
			ran++
			checkVector(t, vec, scheme, body)
		})
	}
	t.Logf("%d of %d vectors ran, %d have their body elsewhere", ran, len(vectors), noBody)
	if ran < wantVectors {
		t.Errorf("%d vectors ran, want at least %d", ran, wantVectors)
	}
}

// reasons lists what each recorded reason may be called here. They differ
// where we look at the timestamp last, or tell damaged from wrong.
var reasons = map[string][]signature.Reason{
	"body_hash_mismatch":  {signature.BodyAltered},
	"mismatch":            {signature.NoMatch, signature.BodyAltered, signature.MalformedHeader, signature.UnknownScheme, signature.MalformedField},
	"malformed_signature": {signature.MalformedHeader, signature.NoMatch, signature.UnknownScheme, signature.MalformedField},
	"malformed_timestamp": {signature.MalformedTimestamp},
	"missing_signature":   {signature.MissingHeader, signature.MalformedHeader, signature.MissingField},
	"missing_header":      {signature.MissingHeader},
	"stale":               {signature.TooOld},
	"future":              {signature.InFuture, signature.MalformedHeader},
}

func checkVector(t *testing.T, vec vector, scheme signature.Scheme, body []byte) {
	t.Helper()
	v, err := scheme.Verifier([]string{vec.Secret})
	if vec.RejectReason == "empty_secret" {
		if err == nil {
			t.Error("Verifier with an empty secret = nil error")
		}
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	h, now := http.Header{}, nowOf(vec)
	for name, value := range vec.Headers {
		h.Set(name, value)
	}
	r := signature.Request{Method: vec.Method, URL: vec.URL, Header: h, Body: body}
	got := reason(t, v.Verify(r, now))
	switch {
	case vec.Valid && got != "":
		t.Fatalf("Verify = %q, want valid", got)
	case !vec.Valid && !slices.Contains(reasons[vec.RejectReason], got):
		t.Fatalf("Verify = %q, want one of %q, recorded as %q", got, reasons[vec.RejectReason], vec.RejectReason)
	case vec.Valid && !scheme.BodyUnsigned && scheme.Kind != signature.Token:
		r.Body = append(body, ' ')
		if v.Verify(r, now) == nil {
			t.Error("Verify with a space after the body = nil")
		}
	}
}

// hmacText matches the vectors' words for the schemes that are plain data.
var hmacText = regexp.MustCompile(`^(?:stripe-like: )?hmac-(sha\d+)[- ](hex|base64) over (raw body|"\{ts?\}[.,]\{raw body\}")`)

// headers says where each provider of hmacText has its signature.
var headers = map[string]string{
	"adcp": "X-ADCP-Signature", "bitbucket-server": "X-Hub-Signature", "bitbucket/jira": "X-Hub-Signature",
	"coinbase-commerce": "X-CC-Webhook-Signature", "convoy": "X-Convoy-Signature", "generic": "X-Signature",
	"gitea": "X-Gitea-Signature", "github": "X-Hub-Signature", "gogs": "X-Gogs-Signature", "line": "X-Line-Signature",
	"pusher": "X-Pusher-Signature", "razorpay": "X-Razorpay-Signature", "shopify": "X-Shopify-Hmac-Sha256",
}

// families are the schemes of those providers that do not sign the raw body
// with a shared secret and nothing else.
func families(tolerance time.Duration) map[string]signature.Scheme {
	const item = "/NotificationRequestItem"
	return map[string]signature.Scheme{
		"gitee": {Header: "X-Gitee-Token", Algorithm: "sha256", Encoding: "base64", TimestampHeader: "X-Gitee-Timestamp",
			TimestampUnit: "ms", Signed: "{timestamp}\n{secret}", BodyUnsigned: true},
		"gitlab": {Kind: signature.Token, Header: "X-Gitlab-Token"},
		"twilio": {Header: "X-Twilio-Signature", Algorithm: "sha1", Encoding: "base64", Signed: "{url}{form}",
			PortOptional: true, URLBodyHash: "bodySHA256"},
		"square": {Header: "X-Square-Hmacsha256-Signature", Algorithm: "sha256", Encoding: "base64", Signed: "{url}{body}"},
		"adyen": {Items: "/notificationItems", SignatureAt: item + "/additionalData/hmacSignature", Algorithm: "sha256",
			Encoding: "base64", KeyEncoding: "hex", BodyUnsigned: true,
			Signed: strings.ReplaceAll("{@/pspReference}:{@/originalReference}:{@/merchantAccountCode}:{@/merchantReference}:"+
				"{@/amount/value}:{@/amount/currency}:{@/eventCode}:{@/success}", "@", item)},
		"mailgun": {SignatureAt: "/signature/signature", TimestampAt: "/signature/timestamp", Algorithm: "sha256", Encoding: "hex",
			Signed: "{timestamp}{/signature/token}", BodyUnsigned: true, Tolerance: tolerance},
		"hubspot": {Kind: signature.Hash, Header: "X-HubSpot-Signature", Algorithm: "sha256", Encoding: "hex",
			Signed: "{secret}{method}{url}{body}"},
		"zendesk": {Header: "X-Zendesk-Webhook-Signature", Algorithm: "sha256", Encoding: "base64", TimestampUnit: "rfc3339",
			TimestampHeader: "X-Zendesk-Webhook-Signature-Timestamp", Signed: "{timestamp}{body}", Tolerance: tolerance},
		"discord": {Kind: signature.Ed25519, Header: "X-Signature-Ed25519", Encoding: "hex",
			TimestampHeader: "X-Signature-Timestamp", Signed: "{timestamp}{body}"},
		"sendgrid": {Kind: signature.ECDSA, Header: "X-Twilio-Email-Event-Webhook-Signature", Algorithm: "sha256", Encoding: "base64",
			TimestampHeader: "X-Twilio-Email-Event-Webhook-Timestamp", Signed: "{timestamp}{body}"},
		"wise": {Kind: signature.RSA, Header: "X-Signature-SHA256", Algorithm: "sha256", Encoding: "base64"},
	}
}

// schemeOf builds the scheme from the vector's words for it.
func schemeOf(vec vector) (s signature.Scheme, ok bool) {
	tolerance := time.Duration(vec.Tolerance) * time.Second
	switch kind, _, _ := strings.Cut(vec.Scheme, ":"); kind {
	case "stripe v1":
		return signature.Stripe(), true
	case "standard webhooks":
		return signature.StandardWebhooks(map[string]string{"standard-webhooks": "webhook", "svix": "svix"}[vec.Provider]), true
	case "slack v0":
		return signature.Scheme{Header: "X-Slack-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "v0=",
			TimestampHeader: "X-Slack-Request-Timestamp", Signed: "v0:{timestamp}:{body}", Tolerance: tolerance}, true
	case "paddle":
		return signature.Scheme{Header: "Paddle-Signature", Algorithm: "sha256", Encoding: "hex", Prefix: "h1=",
			Separator: ";", TimestampField: "ts", Signed: "{timestamp}:{body}", Tolerance: tolerance}, true
	case "adyen platform webhooks":
		return signature.Scheme{Header: "HmacSignature", Algorithm: "sha256", Encoding: "base64", KeyEncoding: "hex"}, true
	}
	if s, ok := families(tolerance)[vec.Provider]; ok {
		return s, true
	}
	if vec.Provider == "github" && strings.HasPrefix(vec.Scheme, "hmac-sha256") {
		return signature.GitHub(), true
	}
	return hmacScheme(vec, tolerance)
}

func hmacScheme(vec vector, tolerance time.Duration) (signature.Scheme, bool) {
	m := hmacText.FindStringSubmatch(vec.Scheme)
	if m == nil {
		return signature.Scheme{}, false
	}
	s := signature.Scheme{Header: headers[vec.Provider], Algorithm: m[1], Encoding: m[2]}
	if strings.Contains(vec.Scheme, "prefix "+m[1]+"=") {
		s.Prefix = m[1] + "="
	}
	if strings.Contains(vec.Scheme, "optional prefix") && strings.Contains(vec.Scheme, "comma list") {
		s.PrefixOptional, s.Separator = true, ","
	}
	if m[3] != "raw body" {
		s.Tolerance = tolerance
		s.Signed = strings.NewReplacer(`"`, "", "{ts}", "{timestamp}", "{t}", "{timestamp}", "raw body", "body").Replace(m[3])
	}
	switch {
	case strings.HasPrefix(vec.Scheme, "stripe-like"):
		s.Prefix, s.Separator, s.TimestampField = "v1=", ",", "t"
	case strings.Contains(vec.Scheme, "timestamp in its own header"):
		s.TimestampHeader = "X-ADCP-Timestamp"
	}
	return s, true
}

func nowOf(vec vector) time.Time {
	if vec.Now != nil {
		return time.Unix(*vec.Now, 0)
	}
	seconds, _ := vec.Timestamp.(float64)
	return time.Unix(int64(seconds), 0)
}
