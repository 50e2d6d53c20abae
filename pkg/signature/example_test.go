package signature_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func ExampleScheme_Verifier() {
	// A provider of our own invention, while its secret is being changed.
	scheme := signature.Scheme{
		Header:          "X-Shop-Signature",
		Algorithm:       "sha512",
		Encoding:        "base64",
		TimestampHeader: "X-Shop-Time",
		Signed:          "v0:{timestamp}:{body}",
		Tolerance:       time.Minute,
	}
	v, err := scheme.Verifier([]string{"new secret", "old secret"})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Unix(1_700_000_000, 0)
	r, err := v.Sign(signature.Request{Method: "POST", Body: []byte("hello")}, "", now)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(v.Verify(r, now))

	r.Body = []byte("jello")
	err = v.Verify(r, now)
	fmt.Println(err, errors.Is(err, webhook.ErrUnverified))

	r.Body = []byte("hello")
	err = v.Verify(r, now.Add(time.Hour))
	if e, ok := errors.AsType[*signature.Error](err); ok {
		fmt.Println(e.Reason)
	}
	// Output:
	// <nil>
	// delivery not verified: no_match (X-Shop-Signature) true
	// too_old
}
