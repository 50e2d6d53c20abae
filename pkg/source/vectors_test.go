package source_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// A vector is one delivery with a verdict, recorded from public documents and tests.
type vector struct {
	ID, Provider string
	Method, URL  string
	Headers      map[string]string
	Body         string
	BodyBase64   string                               `json:"body_base64"`
	BodyRef      *struct{ Repo, Path, SHA256 string } `json:"body_ref"`
	Secret       string
	Timestamp    any
	Now          int64
	Valid        bool
}

// presetsOf says which presets are tried with the vectors of a provider, where
// that is not the one of the same name.
var presetsOf = map[string][]string{"bitbucket/jira": {"bitbucket", "jira"}, "generic": nil}

// refused are vectors that their authors call valid, and that a preset refuses:
// GitHub sends SHA-1 beside SHA-256, and never SHA-512.
var refused = map[string]bool{"github-07": true, "github-09": true, "github-12": true, "github-13": true, "github-17": true}

// The schemes of the presets that call themselves proven give the verdicts that
// others recorded.
func TestVectors(t *testing.T) {
	t.Parallel()
	dir := sharedFolder(t)
	var vectors []vector
	readJSON(t, filepath.Join(dir, "vectors", "signatures.json"), &vectors)
	bodies := corpusFiles(t, dir)
	proofs, elsewhere := map[string]int{}, map[string]int{}
	for _, vec := range vectors {
		presets, listed := presetsOf[vec.Provider]
		if !listed {
			presets = []string{vec.Provider}
		}
		for _, name := range presets {
			p, ok := source.FindPreset(name)
			if !ok {
				t.Errorf("%s: no preset %s", vec.ID, name)
				continue
			}
			body, found := bodyOf(t, vec, bodies)
			if !found {
				elsewhere[name]++
				continue
			}
			checkVector(t, p, name, vec, body)
			proofs[name]++
		}
	}
	t.Logf("ran %v; the bodies of %v are not here", proofs, elsewhere)
	for _, name := range source.Providers() {
		p, _ := source.FindPreset(name)
		if source.AliasOf(name) != "" || !strings.HasPrefix(p.Proof, "vectors "+name+":") {
			continue
		}
		if proofs[name] == 0 {
			t.Errorf("%s calls itself proven by %s, but there is none", name, p.Proof)
		}
	}
}

func checkVector(t *testing.T, p source.Preset, name string, vec vector, body []byte) {
	t.Helper()
	v, err := p.Scheme.Verifier([]string{vec.Secret})
	if err != nil {
		if vec.Valid || vec.Secret != "" {
			t.Errorf("%s: Verifier of %s = %v", vec.ID, name, err)
		}
		return
	}
	r := signature.Request{Method: vec.Method, URL: vec.URL, Header: http.Header{}, Body: body}
	for key, value := range vec.Headers {
		r.Header.Set(key, value)
	}
	if err := v.Verify(r, timeOf(vec)); (err == nil) != (vec.Valid && !refused[vec.ID]) {
		t.Errorf("%s: Verify of %s = %v, want valid: %t", vec.ID, name, err, vec.Valid)
	}
}

// timeOf is the time at which the vector was checked, or that it was signed at.
func timeOf(vec vector) time.Time {
	seconds, _ := vec.Timestamp.(float64)
	switch {
	case vec.Now != 0:
		return time.Unix(vec.Now, 0)
	case seconds > 1e11:
		return time.UnixMilli(int64(seconds))
	}
	return time.Unix(int64(seconds), 0)
}

func bodyOf(t *testing.T, vec vector, bodies map[string]string) (body []byte, found bool) {
	t.Helper()
	switch {
	case vec.BodyRef != nil:
		body, err := os.ReadFile(bodies[vec.BodyRef.Repo+" "+vec.BodyRef.Path])
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

// corpusFiles returns real payloads by the repository and path that they are of.
func corpusFiles(t *testing.T, dir string) map[string]string {
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
	text, err := os.ReadFile(file)
	if err := errors.Join(err, json.Unmarshal(text, into)); err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// sharedFolder returns the folder of recorded deliveries: HOOKONCE_SHARED, or
// "shared" beside the repository. A user's checkout has none.
func sharedFolder(t *testing.T) string {
	t.Helper()
	for _, dir := range []string{os.Getenv("HOOKONCE_SHARED"), filepath.Join("..", "..", "..", "shared")} {
		if _, err := os.Stat(filepath.Join(dir, "corpus", "manifest.json")); dir != "" && err == nil {
			return dir
		}
	}
	t.Skip("no recorded deliveries: HOOKONCE_SHARED is not set and there is no folder shared beside the repository")
	return ""
}

// Vectors that providers publish in their own libraries.
func TestVectorsOfProviders(t *testing.T) {
	t.Parallel()
	const goCardless = `{"events":[{"id":"EV00BD05S5VM2T","created_at":"2018-07-05T09:13:51.404Z","resource_type":"subscriptions","action":"created",` +
		`"links":{"subscription":"SB0003JJQ2MR06"},"details":{"origin":"api","cause":"subscription_created","description":"Subscription created via the API."},` +
		`"metadata":{}},{"id":"EV00BD05TB8K63","created_at":"2018-07-05T09:13:56.893Z","resource_type":"mandates","action":"created",` +
		`"links":{"mandate":"MD000AMA19XGEC"},"details":{"origin":"api","cause":"mandate_created","description":"Mandate created via the API."},"metadata":{}}]}`
	for _, row := range []struct{ provider, secret, header, signature, body string }{
		// gocardless/gocardless-pro-python, tests/webhooks_test.py
		{"gocardless", "ED7D658C-D8EB-4941-948B-3973214F2D49", "Webhook-Signature", "2693754819d3e32d7e8fcb13c729631f316c6de8dc1cf634d6527f1c07276e7e", goCardless},
		// PagerDuty/go-pagerduty, webhookv3/webhookv3_test.go
		{"pagerduty", "lDQHScfUeXUKaQRNF+8XIiDKZ7XX3itBAYzwU0TARw8lJqRnkKl2iB1anSb0Z+IK", "X-Pagerduty-Signature", "v1=0c0b9495b893a39e70d1fea2fe11fbe0a825f88b9f67846f6cc07dd2bc5476cd", pagerDuty},
	} {
		p, _ := source.FindPreset(row.provider)
		v, err := p.Scheme.Verifier([]string{row.secret})
		if err != nil {
			t.Fatal(err)
		}
		r := signature.Request{Header: header(row.header, row.signature), Body: []byte(row.body)}
		if err := v.Verify(r, noon); err != nil {
			t.Errorf("%s: Verify = %v", row.provider, err)
		}
		r.Body = append(r.Body, '\n')
		if v.Verify(r, noon) == nil {
			t.Errorf("%s: Verify of another body = nil", row.provider)
		}
	}
}

const pagerDuty = `{"event":{"id":"01BWDWL3NYY7LUFPZCC28QUCMK","event_type":"incident.priority_updated","resource_type":"incident","occurred_at":"2021-04-26T17:36:27.458` +
	`Z","agent":{"html_url":"https://acme.pagerduty.com/users/PLH1HKV","id":"PLH1HKV","self":"https://api.pagerduty.com/users/PLH1HKV","summary":"Tenex Eng` +
	`ineer","type":"user_reference"},"client":null,"data":{"id":"PGR0VU2","type":"incident","self":"https://api.pagerduty.com/incidents/PGR0VU2","html_url"` +
	`:"https://acme.pagerduty.com/incidents/PGR0VU2","number":2,"status":"triggered","title":"A little bump in the road","service":{"html_url":"https://acm` +
	`e.pagerduty.com/services/PF9KMXH","id":"PF9KMXH","self":"https://api.pagerduty.com/services/PF9KMXH","summary":"API Service","type":"service_reference` +
	`"},"assignees":[{"html_url":"https://acme.pagerduty.com/users/PTUXL6G","id":"PTUXL6G","self":"https://api.pagerduty.com/users/PTUXL6G","summary":"User` +
	` 123","type":"user_reference"}],"escalation_policy":{"html_url":"https://acme.pagerduty.com/escalation_policies/PUS0KTE","id":"PUS0KTE","self":"https:` +
	`//api.pagerduty.com/escalation_policies/PUS0KTE","summary":"Default","type":"escalation_policy_reference"},"teams":[{"html_url":"https://acme.pagerdut` +
	`y.com/teams/PFCVPS0","id":"PFCVPS0","self":"https://api.pagerduty.com/teams/PFCVPS0","summary":"Engineering","type":"team_reference"}],"priority":{"ht` +
	`ml_url":"https://acme.pagerduty.com/account/incident_priorities","id":"PSO75BM","self":"https://api.pagerduty.com/priorities/PSO75BM","summary":"P1","` +
	`type":"priority_reference"},"urgency":"high","conference_bridge":{"conference_number":1000,"conference_url":"https://example.com"},"resolve_reason":nu` +
	`ll}}}`
