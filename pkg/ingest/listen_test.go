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
	} {
		if b := strings.ReplaceAll(request, change[0], change[1]); b == request || ingest.IsWhole([]byte(b)) {
			t.Errorf("%s: is whole: %q", name, b)
		}
	}
}

// crowded serves with a door for one, who is inside until release is called.
func crowded(t *testing.T) (r *rig, addr string, release func()) {
	t.Helper()
	r = newRig(t, withDoor(1))
	entered, open := make(chan struct{}), make(chan struct{})
	var once sync.Once
	release = func() { once.Do(func() { close(open) }) }
	r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
		if ev.ID == "evt_1" {
			close(entered)
			<-open
		}
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: r, ReadHeaderTimeout: time.Minute, ConnState: func(c net.Conn, s http.ConnState) {
		if s == http.StateIdle {
			c.(interface{ Idle() }).Idle()
		}
	}}
	go srv.Serve(r.door.Listen(ln))
	t.Cleanup(func() { release(); srv.Close() })
	first := connect(t, ln.Addr().String())
	first.send(whole("evt_1"))
	<-entered
	return r, ln.Addr().String(), release
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
// and serves the same connection when it is not.
func TestListen(t *testing.T) {
	t.Parallel()
	r, addr, release := crowded(t)
	c := connect(t, addr)
	for range 3 {
		c.send(whole("evt_2"))
		c.want(503, "Too busy")
	}
	if n := len(r.queue.got()); n != 1 {
		t.Errorf("the queue got %d events", n)
	}
	release()
	for code := 503; code != 200; { // until the first has left
		c.send(whole("evt_2"))
		code, _, _ = c.answer()
	}
	c.send(whole("evt_3"))
	c.want(200, "evt_3")
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
			_, addr, _ := crowded(t)
			c := connect(t, addr)
			for _, piece := range pieces(whole("evt_2")) {
				c.send(piece)
				time.Sleep(50 * time.Millisecond) // so that each is read alone; in one piece it is harmless
			}
			if code, body, _ := c.answer(); code != 503 && code != 400 {
				t.Errorf("answer %d %s", code, body)
			}
			c.Close()
			// Behind a pipelined piece the connection is served by net/http alone.
			c = connect(t, addr)
			both := whole("evt_2") + whole("evt_3")
			c.send(both[:len(both)-10])
			time.Sleep(50 * time.Millisecond)
			c.send(both[len(both)-10:])
			c.want(503, "Too busy")
			c.want(503, "Too busy")
		})
	}
}
