package faults

import (
	"bytes"
	"net"
	"sync"
	"testing"
	"time"
)

// A proxy stands between a program and a server, and can take the way between
// them away.
type proxy struct {
	ln net.Listener

	mu      sync.Mutex
	target  string
	links   map[*link]bool
	down    bool
	stalled bool
	delay   func() time.Duration
	word    []byte
	armed   int  // so many answers to commands with word are lost
	sharp   bool // cut at once: the server may not even have read the command
	lost    int
	wait    time.Duration // instead of being lost, a command waits so long
}

// A link is one connection through a proxy.
type link struct {
	client, server net.Conn
	mu             sync.Mutex
	doomed         bool // its next answer is lost, and the link with it
}

func newProxy(tb testing.TB, target string) *proxy {
	tb.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{ln: ln, target: target, links: map[*link]bool{}}
	go p.accept()
	tb.Cleanup(func() {
		ln.Close()
		p.cut()
	})
	return p
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) accept() {
	for {
		client, err := p.ln.Accept()
		if err != nil {
			return
		}
		go p.serve(client)
	}
}

func (p *proxy) serve(client net.Conn) {
	p.mu.Lock()
	target, down := p.target, p.down
	p.mu.Unlock()
	server, err := net.DialTimeout("tcp", target, time.Second)
	if err != nil || down {
		reset(client)
		if err == nil {
			server.Close()
		}
		return
	}
	l := &link{client: client, server: server}
	p.mu.Lock()
	p.links[l] = true
	p.mu.Unlock()
	go p.pipe(l, server, client, false)
	p.pipe(l, client, server, true)
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// pipe relays until one side ends, or an answer is to be lost.
func (p *proxy) pipe(l *link, from, to net.Conn, commands bool) {
	defer l.client.Close()
	defer l.server.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil {
			return
		}
		p.hold()
		sharp, wait := false, time.Duration(0)
		if commands {
			sharp, wait = p.matches(l, buf[:n])
		}
		time.Sleep(wait)
		l.mu.Lock()
		lost := !commands && l.doomed
		l.mu.Unlock()
		if lost {
			return
		}
		if _, err := to.Write(buf[:n]); err != nil || sharp {
			return
		}
	}
}

// hold delays what passes.
func (p *proxy) hold() {
	p.mu.Lock()
	delay := p.delay
	p.mu.Unlock()
	if delay != nil {
		time.Sleep(delay())
	}
	for {
		p.mu.Lock()
		stalled := p.stalled
		p.mu.Unlock()
		if !stalled {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (p *proxy) matches(l *link, command []byte) (sharp bool, wait time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.armed == 0 || !bytes.Contains(command, p.word) {
		return false, 0
	}
	p.armed--
	p.lost++
	if p.wait > 0 {
		return false, p.wait
	}
	l.mu.Lock()
	l.doomed = true
	l.mu.Unlock()
	return p.sharp, 0
}

// lose lets the answers to the next n commands that contain word get lost.
func (p *proxy) lose(word string, n int, sharp bool) {
	p.set(func() { p.word, p.armed, p.sharp = []byte(word), n, sharp })
}

// holdBack lets the next n commands that contain word wait on their way.
func (p *proxy) holdBack(word string, n int, d time.Duration) {
	p.set(func() { p.word, p.armed, p.wait = []byte(word), n, d })
}

// losses is how many were, or waited.
func (p *proxy) losses() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lost
}

func (p *proxy) set(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

// cut resets all links.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stalled, p.delay = false, nil
	for l := range p.links {
		reset(l.client)
		l.server.Close()
	}
}

// away cuts, and lets nobody through for a while.
func (p *proxy) away(d time.Duration) {
	p.set(func() { p.down = true })
	p.cut()
	time.Sleep(d)
	p.set(func() { p.down = false })
}

// stall swallows nothing and passes nothing for a while.
func (p *proxy) stall(d time.Duration) {
	p.set(func() { p.stalled = true })
	time.Sleep(d)
	p.set(func() { p.stalled = false })
}

// slow delays all that passes, for a while.
func (p *proxy) slow(d time.Duration, delay func() time.Duration) {
	p.set(func() { p.delay = delay })
	time.Sleep(d)
	p.set(func() { p.delay = nil })
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	c.Close()
}
