package source_test

import (
	"errors"
	"slices"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestProviders(t *testing.T) {
	t.Parallel()
	if got, want := source.Providers(), []string{"github", "standard-webhooks", "stripe"}; !slices.Equal(got, want) {
		t.Errorf("Providers = %q, want %q", got, want)
	}
	for _, name := range []string{"", "GitHub", "nobody"} {
		if p, ok := source.FindPreset(name); ok {
			t.Errorf("FindPreset(%q) = %+v", name, p)
		}
	}
}

// Each preset makes a source that takes what its provider signs, and finds an
// id and a type in it.
func TestPresets(t *testing.T) {
	t.Parallel()
	const body = `{"id":"id_1","type":"x.y","action":"done"}`
	want := map[string]struct {
		id, typ string
		keep    []string
	}{
		"github":            {"id_1", "issues.done", []string{"X-GitHub-Event", "X-GitHub-Hook-ID"}},
		"standard-webhooks": {"id_1", "x.y", nil},
		"stripe":            {"id_1", "x.y", nil},
	}
	for _, provider := range source.Providers() {
		t.Run(provider, func(t *testing.T) {
			t.Parallel()
			if !source.ValidName(provider) {
				t.Errorf("%q is no name for a source", provider)
			}
			s, want := of(t, provider), want[provider]
			p, _ := source.FindPreset(provider)
			v, err := p.Scheme.Verifier([]string{"c2VjcmV0"})
			if err != nil {
				t.Fatal(err)
			}
			s.Verifier = v
			signed, err := v.Sign(signature.Request{Body: []byte(body)}, "id_1", noon)
			if err != nil {
				t.Fatal(err)
			}
			if err := s.Verify(signed, noon); err != nil {
				t.Errorf("Verify = %v", err)
			}
			other, h := signed, signed.Header
			other.Body = []byte(body + " ")
			if err := s.Verify(other, noon); !errors.Is(err, webhook.ErrUnverified) {
				t.Errorf("Verify of another body = %v, want %v", err, webhook.ErrUnverified)
			}
			h.Set("X-GitHub-Delivery", "id_1")
			h.Set("X-GitHub-Event", "issues")
			if id, typ, err := readOne(s, h, []byte(body)); id != want.id || typ != want.typ || err != nil {
				t.Errorf("Read = %q, %q, %v, want %q, %q", id, typ, err, want.id, want.typ)
			}
			if !slices.Equal(p.KeepHeaders, want.keep) {
				t.Errorf("KeepHeaders = %q, want %q", p.KeepHeaders, want.keep)
			}
			if slices.Contains(p.KeepHeaders, p.Scheme.Header) {
				t.Error("the signature is kept")
			}
		})
	}
}

// A preset belongs to the caller: changing it changes nobody else's.
func TestPresetsAreNotShared(t *testing.T) {
	t.Parallel()
	p, _ := source.FindPreset("github")
	p.Type[0].Header, p.KeepHeaders[0] = "X-Other", "X-Other"
	if again, _ := source.FindPreset("github"); again.Type[0].Header != "X-GitHub-Event" || again.KeepHeaders[0] != "X-GitHub-Event" {
		t.Errorf("FindPreset = %+v", again)
	}
}
