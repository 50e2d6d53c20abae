package ingest_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// serve puts h behind a listener. There is no limit of time for what a client
// sends: an answer that waits for more than was sent never comes.
func serve(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(h)
	srv.Config.MaxHeaderBytes = 32 << 10
	srv.Config.ErrorLog = log.New(testLog{t}, "", 0)
	srv.Start()
	t.Cleanup(srv.Close)
	return srv
}

// A testLog fails the test when the server has met a panic.
type testLog struct{ t *testing.T }

func (l testLog) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "panic") {
		l.t.Errorf("the server says: %s", p)
	}
	return len(p), nil
}

// A wire is one connection, to write on what no client would.
type wire struct {
	*net.TCPConn
	*bufio.Reader
}

func dial(t *testing.T, srv *httptest.Server) wire {
	t.Helper()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(30 * time.Second)) // of the test, not of the server
	return wire{conn.(*net.TCPConn), bufio.NewReader(conn)}
}

// write sends text, with \n for the end of a line.
func (w wire) write(t *testing.T, text string) {
	t.Helper()
	if _, err := io.WriteString(w.TCPConn, strings.ReplaceAll(text, "\n", "\r\n")); err != nil {
		t.Fatal(err)
	}
}

// response reads one answer and its body.
func (w wire) response(t *testing.T) (*http.Response, []byte) {
	t.Helper()
	res, err := http.ReadResponse(w.Reader, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, body
}

// closed reports whether the server closes the connection without another word.
func (w wire) closed() bool {
	n, err := w.Read(make([]byte, 1))
	return n == 0 && errors.Is(err, io.EOF)
}

const head = "Host: hooks.example\nContent-Type: application/json\n"

// post is a valid request to the source default.
func post(target, id string) string {
	body := strings.Replace(payment, "evt_1", id, 1)
	return fmt.Sprintf("POST %s HTTP/1.1\n%sContent-Length: %d\n\n%s", target, head, len(body), body)
}

// A79: no path is ever answered with a redirect, which providers do not follow.
func TestWirePaths(t *testing.T) {
	t.Parallel()
	tests := []struct {
		target string
		code   int
	}{
		{"/webhooks", 200},
		{"/webhooks/default", 200},
		{"/webhooks?a=b", 200},
		{"/webhooks?a=%zz;b", 200},
		{"http://hooks.example/webhooks", 200},
		{"http://evil.example/webhooks/default?x#y", 200},
		{"http://hooks.example", 404},
		{"//webhooks", 404},
		{"//hooks.example/webhooks", 404},
		{"/webhooks/", 404},
		{"/webhooks//", 404},
		{"/webhooks//default", 404},
		{"/webhooks/default/", 404},
		{"/webhooks/default/x", 404},
		{"/WEBHOOKS", 404},
		{"/WEBHOOKS/default", 404},
		{"/webhooks/Default", 404},
		{"/webhooks/%2e%2e", 404},
		{"/webhooks/..", 404},
		{"/webhooks/../webhooks", 404},
		{"/./webhooks", 404},
		{"/webhooks/%64efault", 404},
		{"/webhooks/default%00", 404},
		{"/webhooks/default%2F", 404},
		{"/webhooks/%ff", 404},
		{"/webhooks/:source", 404},
		{"/webhooks/*", 404},
		{"/webhooks/" + strings.Repeat("x", 20_000), 404},
		{"*", 404},
		{"/webhooks/%", 400},
		{"/webhooks/%zz", 400},
		{"webhooks", 400},
		{"/web hooks", 400},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%.40s", tt.target), func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := dial(t, serve(t, r))
			w.write(t, post(tt.target, "evt_1"))
			res, body := w.response(t)
			if _, err := parse(body); res.StatusCode != tt.code || err != nil && tt.code != 400 { // 400 is net/http's own
				t.Errorf("%s answered %d %q, %v, want %d", tt.target, res.StatusCode, body, err, tt.code)
			}
			if got := res.Header.Get("Location"); got != "" {
				t.Errorf("%s was sent to %s", tt.target, got)
			}
			if n := len(r.queue.got()); (n == 1) != (tt.code == 200) {
				t.Errorf("%s: the queue got %d events", tt.target, n)
			}
		})
	}
}

func TestWireRefused(t *testing.T) {
	t.Parallel()
	const line = "POST /webhooks HTTP/1.1\n"
	chunk := fmt.Sprintf("%x\n%s\n", len(payment), payment)
	tests := []struct {
		name   string
		raw    string
		code   int
		closes bool
	}{
		{"8 headers over the limit", line + head + "X-Long: " + strings.Repeat("x", 40<<10) + "\n\n", 431, true},
		{"8 too many headers", line + head + strings.Repeat("X-Many: xxxxxxxxxxxxxxxx\n", 2_000) + "\n", 431, true},
		{"9 bad chunk", line + head + "Transfer-Encoding: chunked\n\nzz\n" + payment, 400, true},
		{"9 chunk of more than it says", line + head + "Transfer-Encoding: chunked\n\n5\n" + payment + "\n0\n\n", 400, true},
		{"9 chunk of a negative size", line + head + "Transfer-Encoding: chunked\n\n-1\n" + payment, 400, true},
		{"9 two lengths", line + head + "Content-Length: 5\nContent-Length: 89\n\n" + payment, 400, true},
		{"9 negative length", line + head + "Content-Length: -1\n\n" + payment, 400, true},
		{"9 unknown transfer encoding", line + head + "Transfer-Encoding: gzip, chunked\n\n" + chunk + "0\n\n", 501, true},
		{"11 length over the cap, nothing sent", "POST /webhooks/small HTTP/1.1\n" + head + "Content-Length: 65\n\n", 413, true},
		{"11 length far over the cap, nothing sent", line + head + "Content-Length: 9223372036854775807\n\n", 413, true},
		{"12 chunked over the cap, more to come", "POST /webhooks/small HTTP/1.1\n" + head + "Transfer-Encoding: chunked\n\n41\n" + strings.Repeat(" ", 65) + "\n", 413, true},
		{"15 Expect, length over the cap", "POST /webhooks/small HTTP/1.1\n" + head + "Expect: 100-continue\nContent-Length: 65\n\n", 413, true},
		{"15 Expect, wrong media type", line + "Host: a\nContent-Type: text/plain\nExpect: 100-continue\nContent-Length: 65\n\n", 415, true},
		{"15 Expect, unknown source", "POST /webhooks/nobody HTTP/1.1\n" + head + "Expect: 100-continue\nContent-Length: 65\n\n", 404, true},
		{"15 Expect, no signature", "POST /webhooks/github HTTP/1.1\n" + head + "Expect: 100-continue\nContent-Length: 65\n\n", 401, true},
		{"15 Expect, malformed signature", "POST /webhooks/github HTTP/1.1\n" + head + "X-Hub-Signature-256: sha256=0\nExpect: 100-continue\nContent-Length: 65\n\n", 401, true},
		{"15 Expect, unknown encoding", line + head + "Content-Encoding: br\nExpect: 100-continue\nContent-Length: 65\n\n", 415, true},
		{"15 unknown Expect", line + head + "Expect: 200-ok\nContent-Length: 65\n\n", 417, true},
		{"16 HTTP/1.1 without Host", line + "Content-Type: application/json\nContent-Length: 0\n\n", 400, true},
		{"16 HTTP/2 without its preface", "POST /webhooks HTTP/2.0\n" + head + "\n", 505, true},
		{"27 signature twice", "POST /webhooks/github HTTP/1.1\n" + head + "X-Hub-Signature-256: sha256=00\nx-hub-signature-256: sha256=00\nContent-Length: 2\n\n{}", 401, false},
		// A header with control characters never reaches us.
		{"71 ANSI codes", line + head + "X-Evil: \x1b[31m\nContent-Length: 2\n\n{}", 400, true},
		{"71 CR", line + head + "X-Evil: a\rb\nContent-Length: 2\n\n{}", 400, true},
		{"GET", "GET /webhooks HTTP/1.1\nHost: a\n\n", 405, false},
		{"HTTP/1.0 GET", "GET /webhooks HTTP/1.0\n\n", 405, true},
		{"CONNECT", "CONNECT evil.example:443 HTTP/1.1\nHost: evil.example:443\n\n", 404, false},
		{"no HTTP", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\n\n", 400, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := dial(t, serve(t, r))
			w.write(t, tt.raw)
			res, body := w.response(t)
			if res.StatusCode != tt.code || res.Header.Get("Location") != "" {
				t.Errorf("answer = %d %q, want %d", res.StatusCode, body, tt.code)
			}
			if res.Close != tt.closes {
				t.Errorf("the connection closes: %t, want %t", res.Close, tt.closes)
			}
			if n := len(r.queue.got()); n != 0 {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}

// 9: a body that ends before its time is not an event, though its bytes be JSON.
func TestWireBrokenOff(t *testing.T) {
	t.Parallel()
	const line = "POST /webhooks HTTP/1.1\n"
	for name, raw := range map[string]string{
		"length": fmt.Sprintf("%s%sContent-Length: %d\n\n%s", line, head, len(payment)+1, payment),
		"chunk":  fmt.Sprintf("%s%sTransfer-Encoding: chunked\n\n%x\n%s\n", line, head, len(payment), payment),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := dial(t, serve(t, r))
			w.write(t, raw)
			if err := w.CloseWrite(); err != nil {
				t.Fatal(err)
			}
			res, body := w.response(t)
			want := answer{"error", "Invalid payload: the body could not be read to its end.", "unknown"}
			if got, err := parse(body); res.StatusCode != 400 || got != want || err != nil || !w.closed() {
				t.Errorf("answer = %d %+v, %v, want 400 %+v and the end", res.StatusCode, got, err, want)
			}
			if n := len(r.queue.got()); n != 0 {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}

func TestWireAccepted(t *testing.T) {
	t.Parallel()
	const line = "POST /webhooks HTTP/1.1\n"
	chunked := fmt.Sprintf("%x\n%s\n%x;ext=1\n%s\n0\nX-Trailer: 1\n\n", 5, payment[:5], len(payment)-5, payment[5:])
	tests := []struct {
		name   string
		raw    string
		closes bool
	}{
		{"length", post("/webhooks", "evt_1"), false},
		{"chunked", line + head + "Transfer-Encoding: chunked\n\n" + chunked, false},
		// 400 by the catalogue. net/http goes by the chunks, as RFC 9112 allows,
		// and takes Content-Length away before we see it.
		{"9 chunked and length", line + head + "Content-Length: 3\nTransfer-Encoding: chunked\n\n" + chunked, false},
		{"9 the same length twice", fmt.Sprintf("%s%sContent-Length: %d\nContent-Length: %[3]d\n\n%s", line, head, len(payment), payment), false},
		{"16 HTTP/1.0 without Host", fmt.Sprintf("POST /webhooks HTTP/1.0\nContent-Type: application/json\nContent-Length: %d\n\n%s", len(payment), payment), true},
		{"A57 names in lower case", fmt.Sprintf("%shost: a\ncontent-type: application/json\ncontent-length: %d\n\n%s", line, len(payment), payment), false},
		{"A57 names in upper case", fmt.Sprintf("%sHOST: a\nCONTENT-TYPE: application/json\nCONTENT-LENGTH: %d\n\n%s", line, len(payment), payment), false},
		{"asked to close", strings.Replace(post("/webhooks", "evt_1"), "Host:", "Connection: close\nHost:", 1), true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			w := dial(t, serve(t, r))
			w.write(t, tt.raw)
			res, body := w.response(t)
			if got, err := parse(body); res.StatusCode != 200 || got.Status != "accepted" || err != nil {
				t.Errorf("answer = %d %+v, %v", res.StatusCode, got, err)
			}
			if events := r.queue.got(); len(events) != 1 || string(events[0].Body) != payment {
				t.Errorf("the queue got %+v", events)
			}
			if tt.closes != res.Close {
				t.Errorf("closes: %t, want %t", res.Close, tt.closes)
			}
			if !tt.closes {
				w.write(t, post("/webhooks", "evt_2"))
				if res, body := w.response(t); res.StatusCode != 200 {
					t.Errorf("the next request was answered %d %s", res.StatusCode, body)
				}
			}
		})
	}
}

// 15: the body of a delivery with a bad signature header stays unread where the
// client waits. One that could be right is over the body, so it is asked for.
func TestWireExpect(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := dial(t, serve(t, r))
	w.write(t, "POST /webhooks/github HTTP/1.1\n"+head+"X-Hub-Signature-256: sha256="+strings.Repeat("0", 64)+"\nExpect: 100-continue\nContent-Length: 2\n\n")
	if res, _ := w.response(t); res.StatusCode != 100 {
		t.Fatalf("answer = %d, want 100", res.StatusCode)
	}
	w.write(t, "{}")
	if res, body := w.response(t); res.StatusCode != 401 {
		t.Errorf("answer = %d %s, want 401", res.StatusCode, body)
	}
}

func TestWirePipeline(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	w := dial(t, serve(t, r))
	w.write(t, post("/webhooks", "evt_1")+post("/webhooks/nobody", "evt_2")+post("/webhooks", "evt_3")+"GET /webhooks HTTP/1.1\nHost: a\n\n"+post("/webhooks", "evt_5"))
	for _, want := range []string{"200 evt_1", "404 unknown", "200 evt_3", "405 unknown", "200 evt_5"} {
		res, body := w.response(t)
		a, err := parse(body)
		if got := fmt.Sprint(res.StatusCode, " ", a.EventID); got != want || err != nil {
			t.Errorf("answer = %s, %v, want %s", got, err, want)
		}
	}
	if n := len(r.queue.got()); n != 3 {
		t.Errorf("the queue got %d events, want 3", n)
	}
}

// A57: over HTTP/2 all names are in lower case.
func TestWireHTTP2(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	srv := httptest.NewUnstartedServer(r)
	srv.EnableHTTP2 = true
	srv.StartTLS()
	t.Cleanup(srv.Close)
	d := toGitHub(t, `{"a":"🪝"}`)
	req, err := http.NewRequestWithContext(t.Context(), d.method, srv.URL+d.target, strings.NewReader(d.body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header = d.header
	res, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.ProtoMajor != 2 || res.StatusCode != 200 {
		t.Errorf("answer = %s %d", res.Proto, res.StatusCode)
	}
	if events := r.queue.got(); len(events) != 1 || events[0].ID != "d-1" || events[0].Type != "issues" || string(events[0].Body) != d.body {
		t.Errorf("the queue got %+v", events)
	}
}
