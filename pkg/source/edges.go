package source

import (
	"net/netip"
	"time"
)

// Edges are what ingest asks of a request besides its signature.
type Edges struct {
	// AllowIPs are the addresses that deliveries may come from; none: all. They
	// are a second lock, and no proof of who sent.
	AllowIPs []netip.Prefix

	// PublicURL is the address that the provider calls, where that is signed and
	// cannot be told from the request; "": as the request and its proxies say.
	PublicURL string

	// RateLimit is how many deliveries are taken.
	RateLimit Rate

	// Replay is for how long the same signed bytes under another id are the
	// event that they were; 0: never, as where the id is signed.
	Replay time.Duration

	// FinalClientErrors says that the provider never retries after a 4xx, so
	// that "not now" must be a 5xx.
	FinalClientErrors bool
}

// A Rate is Count in each Per, over all processes. The zero Rate is no limit.
type Rate struct {
	Count int
	Per   time.Duration
}
