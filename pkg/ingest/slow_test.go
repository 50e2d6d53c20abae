package ingest_test

import (
	"context"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/ingest"
)

// A pipes is a listener whose connections are pipes in memory, so that a test in
// a bubble of synctest need not wait.
type pipes struct {
	conns chan net.Conn
	end   chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.end:
		return nil, net.ErrClosed
	}
}
func (p *pipes) Close() error   { p.once.Do(func() { close(p.end) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// TestSlow has clients that send a byte a second, as slow as they are to stay
// for ever: the head has 5 s, the body 60 s, and neither costs more room than
// what it sent.
func TestSlow(t *testing.T) {
	t.Parallel()
	start := "POST /webhooks HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
	tests := []struct {
		name, quick, slow string
		cut               time.Duration
		answer            string
	}{
		{"head", "POST /webhooks HTTP/1.1\r\n", "X-Slow: " + strings.Repeat("x", 1000), 5 * time.Second, "HTTP/1.1 400 "},
		{"body", start + "Content-Length: 1000\r\n\r\n", strings.Repeat(" ", 1000), 60 * time.Second, "HTTP/1.1 408 "},
		{"chunks", start + "Transfer-Encoding: chunked\r\n\r\n", strings.Repeat("1\r\n \r\n", 200), 60 * time.Second, "HTTP/1.1 408 "},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				bodies := ingest.NewBodies(1 << 20)
				r := newRig(t, func(o *ingest.Options) { o.Bodies, o.Now = bodies, time.Now })
				ln := &pipes{conns: make(chan net.Conn), end: make(chan struct{})}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- httpserve.Serve(ctx, ln, r, slog.New(slog.DiscardHandler)) }()
				client, server := net.Pipe()
				ln.conns <- server
				began := time.Now()
				var writer sync.WaitGroup
				writer.Go(func() {
					io.WriteString(client, tt.quick)
					for i := range len(tt.slow) {
						if _, err := client.Write([]byte{tt.slow[i]}); err != nil {
							return
						}
						time.Sleep(time.Second)
					}
				})
				got, _ := io.ReadAll(client)
				if took := time.Since(began); took < tt.cut || took > tt.cut+2*time.Second {
					t.Errorf("cut off after %s, want %s", took, tt.cut)
				}
				if again := strings.Contains(string(got), "\r\nRetry-After: 5\r\n"); again != (tt.name != "head") {
					t.Errorf("answered %q, want Retry-After with a 408", got)
				}
				if !strings.HasPrefix(string(got), tt.answer) {
					t.Errorf("answered %.100q, want %q", got, tt.answer)
				}
				client.Close()
				writer.Wait()
				synctest.Wait()
				if bodies.InUse() != 0 || len(r.queue.got()) != 0 {
					t.Errorf("%d bytes are in use, %d events held", bodies.InUse(), len(r.queue.got()))
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}
