package signature_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"os"
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

// wantVectors is how many vectors of our schemes have a body that is there.
const wantVectors = 108

func TestVectors(t *testing.T) {
	dir := sharedFolder(t)
	var vectors []vector
	readJSON(t, filepath.Join(dir, "vectors", "signatures.json"), &vectors)
	bodies := readManifest(t, dir)

	var ran, noBody, others int
	for _, vec := range vectors {
		scheme, ours := schemeOf(vec)
		if !ours {
			others++
			continue
		}
		t.Run(vec.ID, func(t *testing.T) {
			body, found := bodyOf(t, vec, bodies)
			if !found {
				noBody++
				t.Skipf("no copy of %s/%s here", vec.BodyRef.Repo, vec.BodyRef.Path)
			}
			ran++
			checkVector(t, vec, scheme, body)
		})
	}
	t.Logf("%d vectors ran, %d have their body elsewhere, %d are of schemes that are not ours", ran, noBody, others)
	if ran < wantVectors {
		t.Errorf("%d vectors ran, want at least %d", ran, wantVectors)
	}
}

// reasons lists what each recorded reason may be called here. They differ
// where we look at the timestamp last, or tell damaged from wrong.
var reasons = map[string][]signature.Reason{
	"mismatch":            {signature.NoMatch, signature.BodyAltered, signature.MalformedHeader, signature.UnknownScheme},
	"malformed_signature": {signature.MalformedHeader, signature.NoMatch, signature.UnknownScheme},
	"malformed_timestamp": {signature.MalformedTimestamp},
	"missing_signature":   {signature.MissingHeader, signature.MalformedHeader},
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
	got := reason(t, v.Verify(request(h, body), now))
	switch {
	case vec.Valid && got != "":
		t.Fatalf("Verify = %q, want valid", got)
	case !vec.Valid && !slices.Contains(reasons[vec.RejectReason], got):
		t.Fatalf("Verify = %q, want one of %q, recorded as %q", got, reasons[vec.RejectReason], vec.RejectReason)
	case vec.Valid && v.Verify(request(h, append(body, ' ')), now) == nil:
		t.Error("Verify with a space after the body = nil")
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

func bodyOf(t *testing.T, vec vector, bodies map[string]string) (body []byte, found bool) {
	t.Helper()
	switch {
	case vec.BodyRef != nil:
		file, listed := bodies[vec.BodyRef.Repo+" "+vec.BodyRef.Path]
		if !listed {
			return nil, false
		}
		body, err := os.ReadFile(file)
		sum := sha256.Sum256(body)
		return body, err == nil && hex.EncodeToString(sum[:]) == vec.BodyRef.SHA256
	case vec.BodyBase64 != "":
		body, err := base64.StdEncoding.DecodeString(vec.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		return body, true
	}
	return []byte(vec.Body), true
}

// readManifest returns the corpus's files by repository and path.
func readManifest(t *testing.T, dir string) map[string]string {
	t.Helper()
	var entries []struct{ File, Repo, Path string }
	readJSON(t, filepath.Join(dir, "corpus", "manifest.json"), &entries)
	files := map[string]string{}
	for _, e := range entries {
		files[e.Repo+" "+e.Path] = filepath.Join(dir, "corpus", filepath.FromSlash(e.File))
	}
	return files
}

func readJSON(t *testing.T, file string, into any) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewDecoder(bytes.NewReader(b)).Decode(into); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// sharedFolder returns the folder of the recorded deliveries: HOOKONCE_SHARED,
// or "shared" beside the repository. A user's checkout has none.
func sharedFolder(t *testing.T) string {
	t.Helper()
	if dir := os.Getenv("HOOKONCE_SHARED"); dir != "" {
		return dir
	}
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for dir != filepath.Dir(dir) {
		parent := filepath.Dir(dir)
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			if shared := filepath.Join(parent, "shared"); isFolder(filepath.Join(shared, "vectors")) {
				return shared
			}
			break
		}
		dir = parent
	}
	t.Skip("no recorded deliveries: HOOKONCE_SHARED is not set and no shared/vectors beside the repository")
	return ""
}

func isFolder(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
