//go:build !race

// Under the race detector a sync.Pool forgets at random, so allocations are
// counted without it.

package signature_test

import (
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

func TestAllocations(t *testing.T) {
	body := make([]byte, 4<<10)
	for _, scheme := range []signature.Scheme{signature.GitHub(), signature.Stripe(), signature.StandardWebhooks("svix")} {
		v := mustVerifier(t, scheme, whsec, "c2Vjb25k")
		h := sign(t, v, "msg_1", body, noon)
		got := testing.AllocsPerRun(100, func() {
			if err := v.Verify(request(h, body), noon); err != nil {
				t.Error(err)
			}
		})
		if got > 0 {
			t.Errorf("%s: %v allocations for a Verify, want none", scheme.Header, got)
		}
	}
}
