package signature_test

import (
	"runtime"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
)

// The usual ways in which a body is changed on its way are told from a wrong
// secret, and others are not.
func TestBodyAltered(t *testing.T) {
	const body = `{"name":"Zoë <a@b>","n":[1,{}]}`
	v := mustVerifier(t, signature.GitHub(), "s3cret")
	tests := []struct {
		name, signed, came string
		want               signature.Reason
	}{
		{"newline more", body, body + "\n", signature.BodyAltered},
		{"newline less", body + "\n", body, signature.BodyAltered},
		{"CR LF", "{\r\n}", "{\n}\r\n", signature.NoMatch},
		{"CR LF for LF", "{\n}", "{\r\n}", signature.BodyAltered},
		{"spaced", body, `{"name": "Zoë <a@b>", "n": [1, {}]}`, signature.BodyAltered},
		{"compacted", `{"name": "Zoë <a@b>", "n": [1, {}]}`, body, signature.BodyAltered},
		{"indented", "{\n  \"a\": 1\n}", `{"a":1}`, signature.BodyAltered},
		{"from ASCII", `{"name":"Zo\u00eb \ud83d\ude00"}`, `{"name":"Zoë 😀"}`, signature.BodyAltered},
		{"byte order mark", body, "\uFEFF" + body, signature.BodyAltered},
		{"another value", body, strings.Replace(body, "1", "2", 1), signature.NoMatch},
		{"another order", `{"a":1,"b":2}`, `{"b":2,"a":1}`, signature.NoMatch},
		{"too large", strings.Repeat("x", 65<<10), strings.Repeat("x", 65<<10) + "\n", signature.NoMatch},
	}
	for _, tt := range tests {
		h := sign(t, v, "", []byte(tt.signed), noon)
		if got := reason(t, v.Verify(request(h, []byte(tt.came)), noon)); got != tt.want {
			t.Errorf("%s: Verify = %q, want %q", tt.name, got, tt.want)
		}
	}
}

// A stranger cannot make us write much by nesting deeply.
func TestAlteredIsBounded(t *testing.T) {
	v := mustVerifier(t, signature.GitHub(), "s3cret")
	h := sign(t, v, "", nil, noon)
	for _, body := range []string{
		strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000),
		strings.Repeat("[", 3_000) + strings.Repeat("1,", 20_000) + "1" + strings.Repeat("]", 3_000),
		strings.Repeat("<", 64<<10-2),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if got := reason(t, v.Verify(request(h, []byte(body)), noon)); got != signature.NoMatch {
			t.Errorf("Verify = %q, want %q", got, signature.NoMatch)
		}
		runtime.ReadMemStats(&after)
		if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
			t.Errorf("Verify of %d bytes allocated %d", len(body), used)
		}
	}
}
