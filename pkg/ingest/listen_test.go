package ingest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// whole is a delivery of an event to the source default, as it is on the wire.
func whole(id string) string {
	body := strings.Replace(payment, "evt_1", id, 1)
	return fmt.Sprintf("POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
}

func TestIsWhole(t *testing.T) {
	t.Parallel()
	const request = "POST /webhooks/shop HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}"
	if !ingest.IsWhole([]byte(request)) {
		t.Fatal("a plain request is not whole")
	}
	for name, change := range map[string][2]string{
		"body is not there yet": {"{}", "{"},
		"another one follows":   {"{}", "{}POST /webhooks HTTP/1.1\r\n\r\n"},
		"head is not there yet": {"\r\n\r\n{}", "\r\n"},
		"chunked":               {"Host: x", "Transfer-Encoding: chunked"},
		"two lengths":           {"Host: x", "content-length: 2"},
		"no length":             {"Content-Length: 2\r\n", ""},
		"a signed length":       {"Length: 2", "Length: +2"},
		"a list of lengths":     {"Length: 2", "Length: 2, 2"},
		"a folded header":       {"Host: x", "Host: x\r\n y"},
		"a header without name": {"Host: x", ": x"},
		"no header at all":      {"Host: x", "x"},
		"waits to be asked":     {"Host: x", "Expect: 100-continue"},
		"wants to be closed":    {"Host: x", "connection: close"},
		"another method":        {"POST", "PUT"},
		"another path":          {"/webhooks/shop", "/healthz"},
		"HTTP/1.0":              {"HTTP/1.1", "HTTP/1.0"},
		"bare line feeds":       {"\r\n", "\n"},
		// What ends a line for net/http, or is refused by it, begins no other request here.
		"a bare line feed hides a coding":      {"Host: x", "X: a\nTransfer-Encoding: chunked"},
		"a bare line feed hides a length":      {"Host: x", "X: a\nContent-Length: 500"},
		"bare line feeds end the head":         {"Host: x", "X: a\n\nPOST /webhooks HTTP/1.1"},
		"a line feed in the first line":        {"shop HTTP", "shop\nX: HTTP"},
		"a bare carriage return":               {"Host: x", "X: a\rTransfer-Encoding: chunked"},
		"a name with a space":                  {"Host:", "Transfer-Encoding :"},
		"a name with a zero":                   {"Host:", "Transfer-Encoding\x00:"},
		"a name with what only looks like one": {"Host:", "Content\u2010Length:"},
		"a vertical tab around the length":     {"Length: 2", "Length: \v2"},
	} {
		if b := strings.ReplaceAll(request, change[0], change[1]); b == request || ingest.IsWhole([]byte(b)) {
			t.Errorf("%s: is whole: %q", name, b)
		}
	}
}

// A crowd is ingest with a door for one, who is inside until release is called.
type crowd struct {
	*rig
	addr    string
	release func()
	states  chan http.ConnState // of all connections but the first
	server  *http.Server
	outside func() int // how many connections wait outside
}

// serve serves at an address of its own.
func (c *crowd) serve(t *testing.T) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.addr, c.states = ln.Addr().String(), make(chan http.ConnState, 1000)
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: time.Minute, ConnState: func(conn net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			conn.(interface{ Idle() }).Idle()
		}
		c.states <- s
	}}
	watched := c.door.Listen(ln)
	c.outside = func() int { return ingest.Outside(watched) }
	go c.server.Serve(watched)
	t.Cleanup(func() { c.server.Close() })
}

func crowded(t *testing.T) *crowd {
	t.Helper()
	r := newRig(t, withDoor(1))
	entered, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	release := func() { once.Do(func() { close(open) }) }
	r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
		if ev.ID == "evt_1" {
			close(entered)
			<-open
		}
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	c := &crowd{rig: r, release: release}
	c.serve(t)
	t.Cleanup(release)
	first := connect(t, c.addr)
	first.send(whole("evt_1"))
	<-entered
	for range 2 { // new, and active
		<-c.states
	}
	return c
}

// await waits until the server has seen this of a connection.
func (c *crowd) await(t *testing.T, want http.ConnState) {
	t.Helper()
	for {
		select {
		case s := <-c.states:
			if s == want {
				return
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("no connection became %v", want)
		}
	}
}

// A caller is a client that says each byte itself.
type caller struct {
	t *testing.T
	net.Conn
	in *bufio.Reader
}

func connect(t *testing.T, addr string) *caller {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return &caller{t, conn, bufio.NewReader(conn)}
}

func (c *caller) send(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c, text); err != nil {
		c.t.Fatal(err)
	}
}

// answer reads one.
func (c *caller) answer() (code int, body string, h http.Header) {
	c.t.Helper()
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	resp, err := http.ReadResponse(c.in, nil)
	if err != nil {
		c.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.StatusCode, string(b), resp.Header
}

func (c *caller) want(code int, word string) {
	c.t.Helper()
	if got, body, h := c.answer(); got != code || !strings.Contains(body, word) || (code == 503) != (h.Get("Retry-After") != "") {
		c.t.Errorf("answer %d %s %v, want %d with %s", got, body, h, code, word)
	}
}

// TestListen turns away at the connection what comes while the door is full,
// without the server, and has the same connection served when it is not.
func TestListen(t *testing.T) {
	t.Parallel()
	r := crowded(t)
	c := connect(t, r.addr)
	for range 3 {
		c.send(whole("evt_2"))
		c.want(503, "Too busy")
	}
	r.await(t, http.StateClosed)
	if n := len(r.queue.got()); n != 1 {
		t.Errorf("the queue got %d events", n)
	}
	r.release()
	for code := 503; code != 200; { // until the first has left
		c.send(whole("evt_2"))
		code, _, _ = c.answer()
	}
	c.send(whole("evt_3"))
	c.want(200, "evt_3")
}

// TestListenAfterCRLF sends what an old client adds to a POST: it belongs to no
// request, inside of the server and outside.
func TestListenAfterCRLF(t *testing.T) {
	t.Parallel()
	c := crowded(t)
	old := connect(t, c.addr)
	for _, between := range []string{"\r\n", "\r\n", ""} {
		old.send(whole("evt_2"))
		old.want(503, "Too busy")
		old.send(between)
	}
	c.release()
	old.send("\r\n" + whole("evt_2"))
	old.want(200, "accepted")
}

// TestListenCounts lets in no more than the door has room for, also when none
// of them has got through it yet, and gives each place back.
func TestListenCounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, withDoor(1))
	c := &crowd{rig: r}
	c.serve(t)
	one := connect(t, c.addr)
	for _, line := range []string{"POST /webhooks/nobody", "POST /webhooks/a/b", "POST /webhooks/github", "POST /webhooks"} {
		one.send(strings.Replace(whole("evt_1"), "POST /webhooks", line, 1))
		if code, body, _ := one.answer(); code == 503 {
			t.Errorf("%s: %d %s", line, code, body)
		}
		c.await(t, http.StateIdle)
	}
	if inside := ingest.Coming(r.door); inside != 0 {
		t.Errorf("the door counts %d", inside)
	}
	for _, want := range []bool{true, false} {
		if got := ingest.Expect(r.door); got != want {
			t.Errorf("it lets one in: %v, want %v", got, want)
		}
	}
	one.send(whole("evt_2"))
	one.want(503, "Too busy")
}

// TestListenEnds closes those outside with the listener, and forgets those who
// go by themselves.
func TestListenEnds(t *testing.T) {
	t.Parallel()
	r := crowded(t)
	gone, stays := connect(t, r.addr), connect(t, r.addr)
	for _, c := range []*caller{gone, stays} {
		c.send(whole("evt_2"))
		c.want(503, "Too busy")
		r.await(t, http.StateClosed)
	}
	gone.Close()
	for began := time.Now(); r.outside() != 1; time.Sleep(time.Millisecond) {
		if time.Since(began) > 20*time.Second {
			t.Fatalf("%d are outside, want 1", r.outside())
		}
	}
	r.server.Close()
	if err := stays.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := stays.in.ReadByte(); err != io.EOF {
		t.Errorf("read of one outside: %v, want EOF", err)
	}
}

// TestListenIsNotFooled lets what looks like a request come as a piece of
// another one. Each request gets one answer, and in its turn.
func TestListenIsNotFooled(t *testing.T) {
	t.Parallel()
	for name, pieces := range map[string]func(inner string) []string{
		"as a body": func(inner string) []string {
			return []string{"POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(inner)) + "\r\n\r\n", inner}
		},
		"as the rest of a body": func(inner string) []string {
			return []string{"POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(2+len(inner)) + "\r\n\r\n{}", inner}
		},
		"as a chunk": func(inner string) []string {
			return []string{"POST /webhooks HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n" +
				strconv.FormatInt(int64(len(inner)), 16) + "\r\n", inner, "\r\n0\r\n\r\n"}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := crowded(t)
			for _, outside := range []bool{false, true} {
				c := connect(t, r.addr)
				if outside {
					c.send(whole("evt_2"))
					c.want(503, "Too busy")
				}
				for _, piece := range pieces(whole("evt_2")) {
					c.send(piece)
					time.Sleep(50 * time.Millisecond) // so that each is read alone; in one piece it is harmless
				}
				c.wantAnswers(1)
				// Behind a pipelined piece the connection is served by net/http alone.
				c = connect(t, r.addr)
				if outside {
					c.send(whole("evt_2"))
					c.want(503, "Too busy")
				}
				both := whole("evt_2") + whole("evt_3")
				c.send(both[:len(both)-10])
				time.Sleep(50 * time.Millisecond)
				c.send(both[len(both)-10:])
				c.wantAnswers(2)
			}
		})
	}
}

// wantAnswers says that nothing more will come, and counts what is refused.
func (c *caller) wantAnswers(want int) {
	c.t.Helper()
	if err := c.Conn.(*net.TCPConn).CloseWrite(); err != nil {
		c.t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		c.t.Fatal(err)
	}
	text, err := io.ReadAll(c.in)
	if got := strings.Count(string(text), "HTTP/1.1 503 ") + strings.Count(string(text), "HTTP/1.1 400 "); err != nil || got != want {
		c.t.Errorf("%d answers, %v, want %d: %s", got, err, want, text)
	}
}
