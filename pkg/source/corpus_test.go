package source_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// generic is for payloads of providers that have no preset: whatever comes,
// signed, its bytes being its id.
func generic() source.Preset {
	return source.Preset{
		Scheme:  signature.Scheme{Header: "X-Signature", Algorithm: "sha256", Encoding: "hex"},
		ID:      []source.Locator{{Content: true}},
		Type:    []source.Locator{{Text: "event"}},
		Items:   &source.Locator{},
		Content: []source.Kind{source.JSON, source.Form},
	}
}

// presetFor is the preset for a folder of the corpus.
func presetFor(folder string) source.Preset {
	name := map[string]string{"github-go-scm": "github"}[folder]
	if name == "" {
		name = folder
	}
	if p, ok := source.FindPreset(name); ok {
		return p
	}
	p := generic()
	if folder == "paddleclassic" { // forms
		p.Items = nil
	}
	return p
}

// What providers really send is taken, once signed, and each event of it is its
// exact part of the bytes.
func TestCorpus(t *testing.T) {
	t.Parallel()
	dir := sharedFolder(t)
	files, err := filepath.Glob(filepath.Join(dir, "corpus", "*", "*"))
	if err != nil || len(files) < 400 {
		t.Fatalf("%d payloads, %v", len(files), err)
	}
	for _, file := range files {
		folder := filepath.Base(filepath.Dir(file))
		t.Run(folder+"/"+filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			body, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			checkPayload(t, presetFor(folder), folder, body)
		})
	}
}

func checkPayload(t *testing.T, p source.Preset, name string, body []byte) {
	t.Helper()
	p.Scheme = complete(p.Scheme)
	s := p.Source(name)
	secret, private := secretsFor(t, p.Scheme)
	v, err := p.Scheme.Verifier([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	s.Verifier = v
	r := signAny(t, p, s, private, body)
	if err := s.Verify(r, noon); err != nil {
		t.Errorf("Verify = %v", err)
	}
	if _, err := s.Kind(r.Header); err != nil {
		t.Errorf("Kind = %v", err)
	}
	items, err := s.Read(r.Header, r.Body)
	if err != nil {
		t.Fatalf("Read = %v", err)
	}
	want := eventsIn(s, body, r.Body)
	if len(items) != len(want) {
		t.Fatalf("Read finds %d events, want %d", len(items), len(want))
	}
	for i, item := range items {
		if item.Err != nil || item.ID == "" || item.Type == "" {
			t.Errorf("event %d: id %q, type %q, %v", i, item.ID, item.Type, item.Err)
		}
		if !bytes.Equal(item.Body, want[i]) {
			t.Errorf("event %d is %q, want %q", i, item.Body, want[i])
		}
	}
}

// signAny signs with the first of the provider's schemes that can.
func signAny(t *testing.T, p source.Preset, s source.Source, private string, body []byte) signature.Request {
	t.Helper()
	h, _, err := s.Sample("id-1", "x.y", nil)
	if err != nil {
		t.Fatal(err)
	}
	contentType, fitted := s.Fit(body)
	h.Set("Content-Type", contentType)
	named(h, "id-1")
	r := signature.Request{Method: http.MethodPost, URL: "https://hooks.example.com/webhooks/" + s.Name, Header: h, Body: fitted}
	for _, scheme := range append([]signature.Scheme{p.Scheme}, p.Scheme.Or...) {
		signer, signErr := scheme.Signer(private)
		if signErr != nil {
			t.Fatal(signErr)
		}
		var signed signature.Request
		if signed, err = signer.Sign(r, "id-1", noon); err == nil {
			return signed
		}
	}
	t.Fatal(err)
	return r
}

// eventsIn are the parts of a delivery that are events of their own: body as it
// lies in the corpus, and posted as it was posted.
func eventsIn(s source.Source, body, posted []byte) [][]byte {
	if s.Items == nil {
		return [][]byte{posted}
	}
	if !bytes.Contains(posted, body) && s.Items.Form == "" { // it was signed inside
		body = posted
	}
	list := json.RawMessage(body)
	if pointer := s.Items.JSON.String(); pointer != "" {
		var fields map[string]json.RawMessage
		if json.Unmarshal(body, &fields) != nil || fields[strings.TrimPrefix(pointer, "/")] == nil {
			return [][]byte{posted}
		}
		list = fields[strings.TrimPrefix(pointer, "/")]
	}
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		return [][]byte{bytes.TrimSpace(list)}
	}
	var events [][]byte
	for _, e := range elements {
		events = append(events, e)
	}
	return events
}
