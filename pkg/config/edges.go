package config

import (
	"net/netip"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
)

// edges reads what is asked of a request besides its signature.
func (m mapping) edges(s *source.Source) {
	m.key("replay_window").duration(&s.Replay, 0, 24*time.Hour, time.Second, "whole seconds from 0 (no check) to 24h, such as 1h")
	m.key("rate_limit").rate(&s.RateLimit)
	m.key("public_url").publicURL(&s.PublicURL)
	if v := m.key("allow_ips"); v.given() {
		s.AllowIPs = v.addresses()
	}
}

var (
	rates   = regexp.MustCompile(`^([0-9]{1,7}) ?/ ?([smh])$`)
	periods = map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}
)

const maxRate = 100_000 // in a second: Redis counts microseconds

// rate reads a number of deliveries in a time.
func (v value) rate(to *source.Rate) {
	var s string
	if !v.text(&s) {
		return
	}
	parts := rates.FindStringSubmatch(s)
	if parts == nil {
		v.wrong("want a number of deliveries in a second, minute or hour, such as 100/s, 6000/m or 1000/h")
		return
	}
	count, _ := strconv.Atoi(parts[1]) // seven digits always fit
	rate := source.Rate{Count: count, Per: periods[parts[2]]}
	if count < 1 || count > maxRate*int(rate.Per/time.Second) {
		v.wrong("want from 1 delivery to %d a second", maxRate)
		return
	}
	*to = rate
}

// publicURL reads the address that a provider calls.
func (v value) publicURL(to *string) {
	var s string
	if !v.text(&s) {
		return
	}
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil || strings.ContainsAny(s, "# \t") {
		v.wrong("want the whole address that the provider calls, such as https://hooks.example.com/webhooks/shop")
		return
	}
	*to = s
}

// addresses reads a list of addresses and networks.
func (v value) addresses() []netip.Prefix {
	entries, ok := v.list("a list of addresses and networks, such as [192.0.2.7, 198.51.100.0/24]")
	if ok && len(entries) == 0 {
		v.wrong("must not be empty: leave it out to allow all addresses")
	}
	var all []netip.Prefix
	for _, entry := range entries {
		var s string
		if !entry.text(&s) {
			continue
		}
		prefix, ok := parseNetwork(s)
		if !ok {
			entry.wrong("want an address or a network, such as 192.0.2.7, 198.51.100.0/24 or 2001:db8::/32")
			continue
		}
		all = append(all, prefix)
	}
	return all
}

// parseNetwork reads an address or a network. Bits beyond those of the network
// would be a mistake that nobody sees.
func parseNetwork(s string) (netip.Prefix, bool) {
	s = strings.TrimSpace(s)
	if addr, err := netip.ParseAddr(s); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), true
	}
	prefix, err := netip.ParsePrefix(s)
	return prefix, err == nil && prefix == prefix.Masked() && !prefix.Addr().Is4In6()
}

// trusted reads the addresses and networks of proxies.
func trusted(entries []string, m *mistakes) []netip.Prefix {
	var all []netip.Prefix
	for _, entry := range entries {
		network, ok := parseNetwork(entry)
		m.when(!ok, "TRUSTED_PROXIES", "want addresses and networks with commas between them, such as 10.0.0.0/8,192.0.2.7")
		all = append(all, network)
	}
	return all
}
