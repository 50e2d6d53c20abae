package ingest

import (
	"bytes"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http/httpguts"
)

// Listen returns ln with connections that the door answers itself while it is
// full. To read a request as HTTP and to answer it takes more than half of what
// it takes to accept one, and this takes a third of that. A connection that was
// told to come back waits outside of the server, where it takes a quarter of
// the memory, until one of its requests is let in.
//
// Only a request that is there whole, in its plainest form and between two
// others, is answered so; whatever else comes is left to the server. The server
// must call Idle on a connection that becomes idle.
func (d *Door) Listen(ln net.Listener) net.Listener {
	l := &doorListener{
		Listener: ln, door: d, arrivals: make(chan arrival), closed: make(chan struct{}), outside: map[*outsider]struct{}{},
	}
	go l.accept()
	return l
}

type doorListener struct {
	net.Listener
	door     *Door
	arrivals chan arrival // what Accept returns

	mu      sync.Mutex
	closed  chan struct{}
	outside map[*outsider]struct{}
}

// An arrival is a connection for the server, be it new or let in again.
type arrival struct {
	conn net.Conn
	err  error
}

func (l *doorListener) accept() {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			conn = nil
		} else {
			c := &doorConn{Conn: conn, listener: l, alone: true}
			c.between.Store(true)
			conn = c
		}
		if !l.arrive(arrival{conn, err}) {
			return
		}
	}
}

// arrive hands over to the server. It reports false if that is gone.
func (l *doorListener) arrive(a arrival) bool {
	select {
	case l.arrivals <- a:
		return true
	case <-l.closed:
		if a.conn != nil {
			a.conn.Close()
		}
		return false
	}
}

func (l *doorListener) Accept() (net.Conn, error) {
	select {
	case a := <-l.arrivals:
		return a.conn, a.err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// remember reports false if the listener is closed.
func (l *doorListener) remember(o *outsider) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
		return false
	default:
	}
	l.outside[o] = struct{}{}
	return true
}

func (l *doorListener) forget(o *outsider) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.outside, o)
}

// Close closes the connections outside too: none of them has a request that is
// not answered.
func (l *doorListener) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.closed:
	default:
		close(l.closed)
	}
	for o := range l.outside {
		o.conn.Close()
	}
	return l.Listener.Close()
}

// A doorConn is a connection inside the server that knows where a request
// begins. It must be sure of that: bytes from within a body, taken for a
// request, would let a sender shift the answers to others with whom it shares a
// proxy's connection.
type doorConn struct {
	net.Conn
	listener *doorListener
	ahead    []byte // read before the server came

	between atomic.Bool // the server has answered, and read nothing since
	alone   bool        // all that it ever read were whole requests, one at a time
	counted atomic.Bool // the door counts it
	left    atomic.Bool // it is no longer the server's
}

// Idle tells that the server has answered a request and waits for the next.
func (c *doorConn) Idle() { c.between.Store(true) }

var busyResponse = []byte("HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: " + retryAfter +
	"\r\nContent-Length: " + strconv.Itoa(len(busyAnswer)) + "\r\n\r\n" + busyAnswer)

// Read reads for the server. It answers what comes while the door is full, and
// leaves the server then.
func (c *doorConn) Read(p []byte) (int, error) {
	if len(c.ahead) > 0 {
		n := copy(p, c.ahead)
		c.ahead = c.ahead[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	if n == 0 || !c.alone {
		return n, err
	}
	if !c.between.Load() || !isWhole(p[:n]) {
		c.alone = false
		return n, err
	}
	if err == nil && !c.enter() {
		if o := newOutsider(c.listener, c.Conn); o != nil {
			c.left.Store(true)
			go o.stay()
			return 0, io.EOF
		}
	}
	c.between.Store(false)
	return n, err
}

// Write writes the server's answer. The delivery is no longer in hand then.
func (c *doorConn) Write(p []byte) (int, error) {
	c.leave()
	return c.Conn.Write(p)
}

// SetWriteDeadline is what the server calls once more when the connection has
// left it.
func (c *doorConn) SetWriteDeadline(t time.Time) error {
	if c.left.Load() {
		return nil
	}
	return c.Conn.SetWriteDeadline(t)
}

// Close closes the connection, unless it has left the server.
func (c *doorConn) Close() error {
	if c.left.Load() {
		return nil
	}
	err := c.Conn.Close()
	c.leave()
	return err
}

// enter has the door count the connection, unless it is full.
func (c *doorConn) enter() bool {
	entered := c.listener.door.expect()
	c.counted.Store(entered)
	return entered
}

// leave has the door count it no more.
func (c *doorConn) leave() {
	if c.counted.Swap(false) {
		c.listener.door.coming.Add(-1)
	}
}

// isWhole reports whether b is one POST request from its first to its last byte,
// with nothing in it that HTTP could read in more than one way: no line that ends
// otherwise than in CRLF, no name that is not one.
func isWhole(b []byte) bool {
	if !bytes.HasPrefix(b, []byte("POST /webhooks")) {
		return false
	}
	head, body, found := bytes.Cut(b, []byte("\r\n\r\n"))
	if !found {
		return false
	}
	line, headers, _ := strings.Cut(string(head), "\r\n")
	if !strings.HasSuffix(line, " HTTP/1.1") || !httpguts.ValidHeaderFieldValue(line) {
		return false
	}
	length := -1
	for len(headers) > 0 {
		line, headers, _ = strings.Cut(headers, "\r\n")
		name, value, found := strings.Cut(line, ":")
		switch {
		case !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value):
			return false
		case strings.EqualFold(name, "Content-Length"):
			n, err := strconv.ParseUint(strings.Trim(value, " \t"), 10, 31)
			if err != nil || length >= 0 {
				return false
			}
			length = int(n)
		case strings.EqualFold(name, "Transfer-Encoding"), strings.EqualFold(name, "Expect"),
			strings.EqualFold(name, "Connection"), strings.EqualFold(name, "Upgrade"):
			return false
		}
	}
	return length == len(body)
}
