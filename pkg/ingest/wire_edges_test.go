package ingest_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/httpserve"
)

// serveAsIs runs h as the program does, with its limits.
func serveAsIs(t *testing.T, h http.Handler) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- httpserve.Serve(ctx, ln, h, slog.New(slog.DiscardHandler)) }()
	t.Cleanup(func() {
		stop()
		<-ended
	})
	return ln.Addr().String()
}

// exchange writes raw, and returns all that comes until the end or a pause.
func exchange(t *testing.T, addr, raw string) string {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	go io.WriteString(conn, strings.ReplaceAll(raw, "\n", "\r\n"))
	all, _ := io.ReadAll(conn)
	return string(all)
}

// 8, 16: what is about the connection itself, with the limits of the program.
// Each request ends it.
func TestWireLimits(t *testing.T) {
	t.Parallel()
	body := payment
	lines := fmt.Sprintf("Host: a\nContent-Type: application/json\nContent-Length: %d\n", len(body))
	tests := []struct {
		name, raw, want string
	}{
		{"8 a request line that is too long", "POST /webhooks?" + strings.Repeat("x", 40<<10) + " HTTP/1.1\n" + lines + "\n" + body, "HTTP/1.1 431 "},
		{"8 a long request line", "POST /webhooks?" + strings.Repeat("x", 20<<10) + " HTTP/1.1\n" + lines + "Connection: close\n\n" + body, "HTTP/1.1 200 "},
		{"8 a header that is too long", "POST /webhooks HTTP/1.1\n" + lines + "X-Long: " + strings.Repeat("x", 40<<10) + "\n\n" + body, "HTTP/1.1 431 "},
		{"8 too many headers", "POST /webhooks HTTP/1.1\n" + lines + strings.Repeat("X-Many: x\n", 5000) + "\n" + body, "HTTP/1.1 431 "},
		{"16 HTTP/1.0", "POST /webhooks HTTP/1.0\n" + lines + "\n" + body, "HTTP/1.0 200 "},
		{"16 HTTP/0.9", "POST /webhooks\n\n", "HTTP/1.1 400 "},
		{"an upgrade to WebSocket is passed over", "POST /webhooks HTTP/1.1\n" + lines + "Connection: upgrade, close\nUpgrade: websocket\n\n" + body, "HTTP/1.1 200 "},
		{"an upgrade to HTTP/2 is passed over", "POST /webhooks HTTP/1.1\n" + lines + "Connection: Upgrade, HTTP2-Settings, close\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\n\n" + body, "HTTP/1.1 200 "},
		{"Connection names a header that matters", "POST /webhooks HTTP/1.1\n" + lines + "Connection: close, content-type\n\n" + body, "HTTP/1.1 200 "},
		{"A79 upper case", "POST /WEBHOOKS HTTP/1.1\n" + lines + "Connection: close\n\n" + body, "HTTP/1.1 404 "},
		{"A79 slash at the end", "POST /webhooks/default/ HTTP/1.1\n" + lines + "Connection: close\n\n" + body, "HTTP/1.1 404 "},
		{"A79 two slashes", "POST //webhooks/default HTTP/1.1\n" + lines + "Connection: close\n\n" + body, "HTTP/1.1 404 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			got := exchange(t, serveAsIs(t, r), tt.raw)
			if !strings.HasPrefix(got, tt.want) || strings.Contains(got, "\nLocation:") {
				t.Errorf("answered %.120q, want %s", got, tt.want)
			}
			if n := len(r.queue.got()); (n == 1) != strings.Contains(tt.want, " 200 ") {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}
