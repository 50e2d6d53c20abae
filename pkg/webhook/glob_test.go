package webhook_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMatches(t *testing.T) {
	t.Parallel()
	tests := []struct {
		pattern, s string
		want       bool
	}{
		{"payment.succeeded", "payment.succeeded", true},
		{"payment.succeeded", "payment.succeeded.late", false},
		{"payment.succeeded", "a payment.succeeded", false},
		{"payment.succeeded", "paymentXsucceeded", false},
		{"payment.succeeded", "Payment.Succeeded", false},
		{"*", "anything", true},
		{"*", "", true},
		{"**", "", true},
		{"**", "anything", true},
		{"", "", true},
		{"", "x", false},
		{"x", "", false},
		{"payment.*", "payment.succeeded", true},
		{"payment.*", "payment.", true},
		{"payment.*", "payment", false},
		{"payment.*", "payments.succeeded", false},
		{"*.created", "order.created", true},
		{"*.created", ".created", true},
		{"*.created", "order.created.v2", false},
		{"*.created", "created", false},
		{"a*a", "aa", true},
		{"a*a", "aba", true},
		{"a*a", "a", false},
		{"a*b*c", "abc", true},
		{"a*b*c", "a1b2b3c", true},
		{"a*b*c", "acb", false},
		{"a*bb*b", "abbb", true},
		{"a*bb*b", "abb", false},
		{"*ab*", "xxaabxx", true},
		{"orders/*", "orders/created", true},
		{"orders/*", "orders/a/b.c", true},
		{"com.shop.*/v1", "com.shop.order.created/v1", true},
		{"?", "x", false},
		{"[ab]", "a", false},
		{`\*`, "*", false},
		{"Größe*", "Größe.geändert", true},
		{"line\n*", "line\nbreak", true},
	}
	for _, tt := range tests {
		if got := webhook.Matches(tt.pattern, tt.s); got != tt.want {
			t.Errorf("Matches(%q, %q) = %t, want %t", tt.pattern, tt.s, got, tt.want)
		}
	}
}

func FuzzMatches(f *testing.F) {
	f.Add("a*bb*b", "abbb")
	f.Add("*", "")
	f.Add("**x**", "yxy\n")
	f.Add("\xc3*", "é")
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if len(pattern) > 100 || len(s) > 1000 {
			return // what only the regexp is slow at
		}
		parts := strings.Split(latin1(pattern), "*")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		want := regexp.MustCompile(`(?s)\A` + strings.Join(parts, ".*") + `\z`).MatchString(latin1(s))
		if got := webhook.Matches(pattern, s); got != want {
			t.Errorf("Matches(%q, %q) = %t, want %t", pattern, s, got, want)
		}
	})
}

// latin1 has a rune for each byte of s, since a regexp knows no bytes.
func latin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}
