package signature_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

// Head refuses only what Match refuses whatever the body is.
func TestHead(t *testing.T) {
	t.Parallel()
	good := "sha256=" + strings.Repeat("0", 64)
	tests := []struct {
		name   string
		scheme signature.Scheme
		values []string
		want   signature.Reason // "": nothing
	}{
		{"may be right", signature.GitHub(), []string{good}, ""},
		{"missing", signature.GitHub(), nil, signature.MissingHeader},
		{"twice", signature.GitHub(), []string{good, good}, signature.RepeatedHeader},
		{"empty", signature.GitHub(), []string{""}, signature.MalformedHeader},
		{"no hex", signature.GitHub(), []string{"sha256=" + strings.Repeat("z", 64)}, signature.MalformedHeader},
		{"of a token", signature.Scheme{Kind: signature.Token, Header: "X-Hub-Signature-256"}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v, err := tt.scheme.Verifier([]string{"s3cret"})
			if err != nil {
				t.Fatal(err)
			}
			h := http.Header{"X-Hub-Signature-256": tt.values}
			err = v.Head(h)
			got := signature.Reason("")
			if e, ok := errors.AsType[*signature.Error](err); ok {
				got = e.Reason
			}
			if got != tt.want || (err == nil) != (tt.want == "") {
				t.Errorf("Head(%q) = %v, want %q", tt.values, err, tt.want)
			}
			if err != nil && v.Verify(signature.Request{Header: h}, noon) == nil {
				t.Error("Verify takes what Head refuses")
			}
		})
	}
}
