package ingest

import "net"

// IsWhole is what the door takes for a request.
var IsWhole = isWhole

// Expect has the door count a delivery, as for a connection.
func Expect(d *Door) bool { return d.expect() }

// Coming is how many the door counts.
func Coming(d *Door) int { return int(d.coming.Load()) }

// Outside is how many connections of a door's listener wait outside.
func Outside(ln net.Listener) int {
	l := ln.(*doorListener)
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.outside)
}
