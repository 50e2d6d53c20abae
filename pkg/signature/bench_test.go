package signature_test

import (
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

func BenchmarkVerify(b *testing.B) {
	body := make([]byte, 4<<10)
	for name, scheme := range map[string]signature.Scheme{"GitHub": signature.GitHub(), "Stripe": signature.Stripe()} {
		b.Run(name+"/4kB", func(b *testing.B) {
			v := mustVerifier(b, scheme, "s3cret")
			h := sign(b, v, "", body, noon)
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if err := v.Verify(request(h, body), noon); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
