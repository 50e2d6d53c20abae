package signature_test

import (
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

// A provider may write its signature in one of several ways into one header:
// whichever it is, it is tried, and nothing else is good.
func TestOrInOneHeader(t *testing.T) {
	t.Parallel()
	var ways []signature.Scheme
	for _, algorithm := range []string{"sha256", "sha512"} {
		for _, encoding := range []string{"hex", "base64"} {
			ways = append(ways, signature.Scheme{Header: "X-Signature", Algorithm: algorithm, Encoding: encoding})
		}
	}
	all := ways[0]
	all.Or = ways[1:]
	v, err := all.Verifier([]string{"secret"})
	if err != nil {
		t.Fatal(err)
	}
	for _, way := range ways {
		signer, err := way.Signer("secret")
		if err != nil {
			t.Fatal(err)
		}
		r, err := signer.Sign(signature.Request{Body: []byte("hello")}, "", noon)
		if err != nil {
			t.Fatal(err)
		}
		if err := v.Verify(r, noon); err != nil {
			t.Errorf("%s in %s: Verify = %v", way.Algorithm, way.Encoding, err)
		}
		r.Body = []byte("jello")
		if got := reason(t, v.Verify(r, noon)); got != signature.NoMatch {
			t.Errorf("%s in %s: Verify of another body = %q, want %q", way.Algorithm, way.Encoding, got, signature.NoMatch)
		}
	}
}
