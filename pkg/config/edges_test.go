package config_test

import (
	"fmt"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
)

// edged is a source with one more line.
func edged(line string) string {
	return "sources:\n  shop:\n    provider: github\n    secrets: [\"${SHOP_SECRET}\"]\n    " + line + "\n"
}

func TestEdges(t *testing.T) {
	t.Parallel()
	network := func(s string) netip.Prefix { return netip.MustParsePrefix(s) }
	base := source.Edges{Replay: time.Hour} // of the preset
	with := func(change func(*source.Edges)) source.Edges {
		e := base
		change(&e)
		return e
	}
	tests := []struct {
		line string
		want source.Edges
	}{
		{"timeout: 15s", base},
		{"rate_limit: 100/s", with(func(e *source.Edges) { e.RateLimit = source.Rate{Count: 100, Per: time.Second} })},
		{"rate_limit: 6000/m", with(func(e *source.Edges) { e.RateLimit = source.Rate{Count: 6000, Per: time.Minute} })},
		{`rate_limit: "1 / h"`, with(func(e *source.Edges) { e.RateLimit = source.Rate{Count: 1, Per: time.Hour} })},
		{"rate_limit: 100000/s", with(func(e *source.Edges) { e.RateLimit = source.Rate{Count: 100_000, Per: time.Second} })},
		{"replay_window: 0s", with(func(e *source.Edges) { e.Replay = 0 })},
		{"replay_window: 0", with(func(e *source.Edges) { e.Replay = 0 })},
		{"replay_window: 24h", with(func(e *source.Edges) { e.Replay = 24 * time.Hour })},
		{"public_url: https://hooks.example/webhooks/shop?a=b", with(func(e *source.Edges) { e.PublicURL = "https://hooks.example/webhooks/shop?a=b" })},
		{"allow_ips: [192.0.2.7, 198.51.100.0/24]", with(func(e *source.Edges) {
			e.AllowIPs = []netip.Prefix{network("192.0.2.7/32"), network("198.51.100.0/24")}
		})},
		{`allow_ips: ["2001:db8::1", "2001:db8::/32", "::ffff:192.0.2.7"]`, with(func(e *source.Edges) {
			e.AllowIPs = []netip.Prefix{network("2001:db8::1/128"), network("2001:db8::/32"), network("192.0.2.7/32")}
		})},
	}
	for _, tt := range tests {
		got, err := parse(edged(tt.line))
		if err != nil || len(got) != 1 || !reflect.DeepEqual(got[0].Edges, tt.want) {
			t.Errorf("%s: %+v, %v, want %+v", tt.line, got, err, tt.want)
		}
	}
}

func TestEdgesRefused(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lines []string
		want  string
	}{
		{[]string{"100", "100/d", "1e3/s", "/s", "-1/s", "1.5/s", "100/s ", "12345678/s", "s"},
			"rate_limit: want a number of deliveries in a second, minute or hour, such as 100/s, 6000/m or 1000/h"},
		{[]string{"0/s", "100001/s", "0/h"}, "rate_limit: want from 1 delivery to 100000 a second"},
		{[]string{"hooks.example", "/webhooks/shop", "ftp://hooks.example/", "https://", "https://u:p@hooks.example/", "https://hooks.example/#x", "https://hooks.example/ x"},
			"public_url: want the whole address that the provider calls, such as https://hooks.example.com/webhooks/shop"},
		{[]string{"192.0.2.7", "{}"}, "allow_ips: want a list of addresses and networks, such as [192.0.2.7, 198.51.100.0/24]"},
		{[]string{"[]"}, "allow_ips: must not be empty: leave it out to allow all addresses"},
		{[]string{"[hooks.example]", "[192.0.2.0/33]", "[192.0.2.7/24]", `["fe80::1%eth0"]`, `["::ffff:192.0.2.0/120"]`, "[192.0.2]"},
			"allow_ips: entry 1: want an address or a network, such as 192.0.2.7, 198.51.100.0/24 or 2001:db8::/32"},
		{[]string{"25h", "-1s", "1.5s", "soon"}, "replay_window: want whole seconds from 0 (no check) to 24h, such as 1h"},
	}
	for _, tt := range tests {
		key, _, _ := strings.Cut(tt.want, ":")
		for _, value := range tt.lines {
			if !strings.HasPrefix(value, "[") && value != "{}" {
				value = fmt.Sprintf("%q", value)
			}
			_, err := parse(edged(key + ": " + value))
			if want := "hookonce.yaml:5: source shop: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("%s: %s: %v, want %s", key, value, err, want)
			}
		}
	}
}

// What is kept of a delivery is shown; so it is never a secret.
func TestSecretHeadersRefused(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"X-Hub-Signature-256", "x-hub-signature-256", "X-Hub-Signature", "authorization", "Cookie"} {
		_, err := parse(edged("headers: [X-GitHub-Event, " + name + "]"))
		if want := "hookonce.yaml:5: source shop: headers: entry 2: is a secret or a signature, which is not kept: leave it out"; err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", name, err, want)
		}
	}
	if _, err := parse(edged("headers: [X-GitHub-Event, X-Signature]")); err != nil {
		t.Error(err)
	}
}
