package ingest

import (
	"bytes"
	"net"
	"strconv"
	"sync/atomic"
	"time"
)

// Listen returns ln with connections that the door answers itself while it is
// full. To read a request as HTTP and to answer it takes more than half of what
// it takes to accept one, and this takes a third of that.
//
// Only a request that is there whole, in its plainest form and between two
// others, is answered so; whatever else comes is left to the server. The server
// must call Idle on a connection that becomes idle.
func (d *Door) Listen(ln net.Listener) net.Listener { return &doorListener{ln, d} }

type doorListener struct {
	net.Listener
	door *Door
}

func (l *doorListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &doorConn{Conn: conn, door: l.door, alone: true}
	c.between.Store(true)
	return c, nil
}

// A doorConn is a connection that knows where a request begins. It must be sure
// of that: bytes from within a body, taken for a request, would let a sender
// shift the answers to others with whom it shares a proxy's connection.
type doorConn struct {
	net.Conn
	door *Door

	between atomic.Bool // the server has answered, and read nothing since
	alone   bool        // all that it ever read were whole requests, one at a time
}

// Idle tells that the server has answered a request and waits for the next.
func (c *doorConn) Idle() { c.between.Store(true) }

var busyResponse = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: " + retryAfter +
	"\r\nContent-Length: " + strconv.Itoa(len(busyAnswer)) + "\r\n\r\n" + busyAnswer)

// serveAfter is for how long a connection is answered past the server. The server
// set a deadline when it began to read, of 5 s at least, and renews it only when
// it has a request.
const serveAfter = 3 * time.Second

// Read reads for the server, and answers what comes while the door is full.
func (c *doorConn) Read(p []byte) (int, error) {
	for began := time.Now(); ; {
		n, err := c.Conn.Read(p)
		if n == 0 || !c.alone {
			return n, err
		}
		if !c.between.Load() || !isWhole(p[:n]) {
			c.alone = false
			return n, err
		}
		if err != nil || !c.door.full() || time.Since(began) > serveAfter {
			c.between.Store(false)
			return n, err
		}
		if _, err := c.Write(busyResponse); err != nil {
			return 0, err
		}
		c.door.turnedAway()
	}
}

// isWhole reports whether b is one POST request from its first to its last byte,
// with nothing in it that HTTP could read in more than one way.
func isWhole(b []byte) bool {
	head, body, found := bytes.Cut(b, []byte("\r\n\r\n"))
	if !found || !bytes.HasPrefix(head, []byte("POST /webhooks")) {
		return false
	}
	line, headers, _ := bytes.Cut(head, []byte("\r\n"))
	if !bytes.HasSuffix(line, []byte(" HTTP/1.1")) {
		return false
	}
	length := -1
	for len(headers) > 0 {
		line, headers, _ = bytes.Cut(headers, []byte("\r\n"))
		name, value, found := bytes.Cut(line, []byte(":"))
		switch {
		case !found || len(name) == 0 || name[0] == ' ' || name[0] == '\t':
			return false
		case bytes.EqualFold(name, []byte("Content-Length")):
			n, err := strconv.ParseUint(string(bytes.TrimSpace(value)), 10, 31)
			if err != nil || length >= 0 {
				return false
			}
			length = int(n)
		case bytes.EqualFold(name, []byte("Transfer-Encoding")), bytes.EqualFold(name, []byte("Expect")),
			bytes.EqualFold(name, []byte("Connection")), bytes.EqualFold(name, []byte("Upgrade")):
			return false
		}
	}
	return length == len(body)
}
