package ingest

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/hookonce/hookonce/pkg/source"
)

// trustedPeers are those of the tests.
var trustedPeers = Proxies{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}

// 48: what a stranger says of itself is not believed.
func TestClient(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, peer string
		forwarded  []string
		want       string
	}{
		{"no proxy", "192.0.2.7:1234", nil, "192.0.2.7"},
		{"48 a stranger says who it is", "192.0.2.7:1234", []string{"198.51.100.1"}, "192.0.2.7"},
		{"one proxy", "10.0.0.1:1234", []string{"198.51.100.1"}, "198.51.100.1"},
		{"a proxy that says nothing", "10.0.0.1:1234", nil, "10.0.0.1"},
		{"two proxies", "10.0.0.1:1234", []string{"198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"48 the client says who it is", "10.0.0.1:1234", []string{"203.0.113.9, 198.51.100.1"}, "198.51.100.1"},
		{"48 the client says it is a proxy", "10.0.0.1:1234", []string{"203.0.113.9, 10.0.0.3, 198.51.100.1, 10.0.0.2"}, "198.51.100.1"},
		{"48 in a line of its own", "10.0.0.1:1234", []string{"203.0.113.9", "198.51.100.1"}, "198.51.100.1"},
		{"only proxies", "10.0.0.1:1234", []string{"10.0.0.3, 10.0.0.2"}, "10.0.0.3"},
		{"no address", "10.0.0.1:1234", []string{"198.51.100.1, unknown"}, "invalid IP"},
		{"nothing", "10.0.0.1:1234", []string{""}, "invalid IP"},
		{"with a port", "10.0.0.1:1234", []string{"198.51.100.1:99"}, "198.51.100.1"},
		{"IPv6", "[2001:db8:1::1]:1234", []string{"2001:db8::7"}, "2001:db8::7"},
		{"IPv6 with a port", "10.0.0.1:1234", []string{"[2001:db8::7]:99"}, "2001:db8::7"},
		{"IPv6 in brackets", "10.0.0.1:1234", []string{"[2001:db8::7]"}, "2001:db8::7"},
		{"IPv4 as IPv6", "[::ffff:10.0.0.1]:1234", []string{"::ffff:198.51.100.1"}, "198.51.100.1"},
		{"a zone", "[fe80::1%eth0]:1234", nil, "fe80::1"},
		{"no network", "@", []string{"198.51.100.1"}, "invalid IP"},
	}
	for _, tt := range tests {
		r := &http.Request{RemoteAddr: tt.peer, Header: http.Header{"X-Forwarded-For": tt.forwarded}}
		if got := trustedPeers.client(r); got.String() != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A62: the address is as the provider called it, whatever ends TLS before us.
func TestURL(t *testing.T) {
	t.Parallel()
	const ours, stranger = "10.0.0.1:1234", "192.0.2.7:1234"
	type headers map[string]string
	tests := []struct {
		name, peer, target, public string
		tls                        bool
		headers                    headers
		want                       string
	}{
		{"as it is", stranger, "/webhooks/shop", "", false, nil, "http://hooks.example/webhooks/shop"},
		{"as it came", stranger, "/webhooks/shop?b=%20&a=%7e", "", false, nil, "http://hooks.example/webhooks/shop?b=%20&a=%7e"},
		{"over TLS", stranger, "/webhooks/shop", "", true, nil, "https://hooks.example/webhooks/shop"},
		{"whole", stranger, "http://hooks.example/webhooks/shop?a", "", false, nil, "http://hooks.example/webhooks/shop?a"},
		{"TLS at a proxy", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Proto": "https"}, "https://hooks.example/webhooks/shop"},
		{"host at a proxy", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Proto": "HTTPS", "X-Forwarded-Host": "public.example:8443"}, "https://public.example:8443/webhooks/shop"},
		{"two proxies", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Proto": "https, http", "X-Forwarded-Host": "public.example, inner.example"}, "https://public.example/webhooks/shop"},
		{"a stranger's word", stranger, "/webhooks/shop", "", false, headers{"X-Forwarded-Proto": "https", "X-Forwarded-Host": "evil.example"}, "http://hooks.example/webhooks/shop"},
		{"no scheme", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Proto": "javascript"}, "http://hooks.example/webhooks/shop"},
		{"no host", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Host": "evil.example/x?"}, "http://hooks.example/webhooks/shop"},
		{"no host but a user", ours, "/webhooks/shop", "", false, headers{"X-Forwarded-Host": "a@evil.example"}, "http://hooks.example/webhooks/shop"},
		{"configured", ours, "/inner/shop", "https://public.example/webhooks/shop", false, headers{"X-Forwarded-Host": "other.example"}, "https://public.example/webhooks/shop"},
		{"configured, with a query", stranger, "/webhooks/shop?bodySHA256=00", "https://public.example/shop", false, nil, "https://public.example/shop?bodySHA256=00"},
		{"configured query", stranger, "/webhooks/shop", "https://public.example/shop?a=b", false, nil, "https://public.example/shop?a=b"},
		{"configured query, and more", stranger, "/webhooks/shop?a=b&bodySHA256=00", "https://public.example/shop?a=b", false, nil, "https://public.example/shop?a=b&bodySHA256=00"},
	}
	for _, tt := range tests {
		r := httptest.NewRequest(http.MethodPost, tt.target, nil)
		r.RemoteAddr, r.Host, r.TLS = tt.peer, "hooks.example", nil
		if tt.tls {
			r.TLS = &tls.ConnectionState{}
		}
		for name, value := range tt.headers {
			r.Header.Set(name, value)
		}
		src := source.New("shop")
		src.PublicURL = tt.public
		if got := trustedPeers.url(&src, r); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
