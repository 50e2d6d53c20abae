package ingest

import (
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/hookonce/hookonce/pkg/source"
)

// Proxies are the peers whose word is taken on who called them and how, by the
// headers X-Forwarded-For, -Proto and -Host. From anybody else these headers
// mean nothing. The header Forwarded never does.
type Proxies []netip.Prefix

func (p Proxies) contain(addr netip.Addr) bool { return contains(p, addr) }

func contains(networks []netip.Prefix, addr netip.Addr) bool {
	return slices.ContainsFunc(networks, func(n netip.Prefix) bool { return n.Contains(addr) })
}

// client returns the address that a request came from, which is not valid if
// that cannot be told. Each proxy adds its peer at the right end, so from there
// on the first that is no proxy of ours is the client, whatever is left of it.
func (p Proxies) client(r *http.Request) netip.Addr {
	addr := peer(r)
	if !p.contain(addr) {
		return addr
	}
	for _, line := range slices.Backward(r.Header.Values("X-Forwarded-For")) {
		hops := strings.Split(line, ",")
		for _, hop := range slices.Backward(hops) {
			addr = parseHop(hop)
			if !p.contain(addr) {
				return addr
			}
		}
	}
	return addr
}

func peer(r *http.Request) netip.Addr {
	ap, _ := netip.ParseAddrPort(r.RemoteAddr)
	return ap.Addr().Unmap().WithZone("")
}

// parseHop reads an address as proxies write it: some add a port.
func parseHop(hop string) netip.Addr {
	hop = strings.TrimSpace(hop)
	if ap, err := netip.ParseAddrPort(hop); err == nil {
		return ap.Addr().Unmap().WithZone("")
	}
	addr, _ := netip.ParseAddr(strings.TrimSuffix(strings.TrimPrefix(hop, "["), "]"))
	return addr.Unmap().WithZone("")
}

// url returns the address as the provider called it, which some of them sign:
// as the source's configuration says, else as the request and the proxies do.
func (p Proxies) url(src *source.Source, r *http.Request) string {
	if src.PublicURL != "" {
		base, _, _ := strings.Cut(src.PublicURL, "?")
		if r.URL.RawQuery == "" {
			return src.PublicURL
		}
		return base + "?" + r.URL.RawQuery
	}
	scheme, host := "http", r.Host
	if r.TLS != nil {
		scheme = "https"
	}
	if p.contain(peer(r)) {
		if proto := forwarded(r, "X-Forwarded-Proto"); strings.EqualFold(proto, "https") || strings.EqualFold(proto, "http") {
			scheme = strings.ToLower(proto)
		}
		if name := forwarded(r, "X-Forwarded-Host"); isHost(name) {
			host = name
		}
	}
	path := r.RequestURI // as it came: what is signed must not be cleaned
	if !strings.HasPrefix(path, "/") {
		path = r.URL.RequestURI()
	}
	return scheme + "://" + host + path
}

// forwarded returns what the first proxy, which the provider called, said.
func forwarded(r *http.Request, name string) string {
	first, _, _ := strings.Cut(r.Header.Get(name), ",")
	return strings.TrimSpace(first)
}

func isHost(s string) bool {
	u, err := url.Parse("//" + s)
	return err == nil && s != "" && u.Host == s
}
