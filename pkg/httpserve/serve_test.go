package httpserve_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/httpserve"
)

// A pipes is a listener whose connections are pipes in memory, so that a test
// in a bubble of synctest need not wait for a limit.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error   { p.once.Do(func() { close(p.closed) }); return nil }
func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipes", Net: "pipe"} }

// A server is a Serve that runs.
type server struct {
	t      *testing.T
	ln     *pipes
	stop   context.CancelFunc
	result chan error
}

func serve(t *testing.T, h http.HandlerFunc) *server {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	s := &server{t: t, ln: newPipes(), stop: stop, result: make(chan error, 1)}
	go func() { s.result <- httpserve.Serve(ctx, s.ln, h, slog.New(slog.DiscardHandler)) }()
	return s
}

// send opens a connection and writes text on it.
func (s *server) send(text string) net.Conn {
	s.t.Helper()
	client, end := net.Pipe()
	select {
	case s.ln.conns <- end:
	case <-s.ln.closed:
		s.t.Fatal("the listener is closed")
	}
	if _, err := io.WriteString(client, text); err != nil {
		s.t.Fatal(err)
	}
	return client
}

// answer reads one response from a connection.
func (s *server) answer(c net.Conn) (int, string) {
	s.t.Helper()
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

// end stops the server and returns Serve's result.
func (s *server) end() error {
	s.stop()
	return <-s.result
}

// cutAfter returns how long it takes the server to close a connection, on
// which it may write before.
func cutAfter(c net.Conn) time.Duration {
	start := time.Now()
	io.Copy(io.Discard, c)
	return time.Since(start)
}

const request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n"

// TestServeAnswersWhatItHas has a request in its handler when the end comes.
func TestServeAnswersWhatItHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		finish := make(chan struct{})
		s := serve(t, func(w http.ResponseWriter, r *http.Request) {
			<-finish
			if err := r.Context().Err(); err != nil {
				t.Errorf("the request's context ended: %v", err)
			}
			io.WriteString(w, "done")
		})
		c := s.send(request)
		synctest.Wait()
		s.stop()
		<-s.ln.closed // and takes no new ones
		time.Sleep(9 * time.Second)
		select {
		case err := <-s.result:
			t.Fatalf("Serve returned %v before the answer", err)
		default:
		}
		close(finish)
		if code, body := s.answer(c); code != 200 || body != "done" {
			t.Errorf("answer %d %q", code, body)
		}
		if err := <-s.result; err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

// TestServeCutsWhatDoesNotEnd has a handler that takes longer than the grace.
func TestServeCutsWhatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
		c := s.send(request)
		synctest.Wait()
		start := time.Now()
		if err := s.end(); err == nil || !strings.Contains(err.Error(), "pipes") {
			t.Errorf("Serve = %v, want an error that names the listener", err)
		}
		if took := time.Since(start); took != 10*time.Second {
			t.Errorf("took %s, want 10s", took)
		}
		cutAfter(c)
	})
}

// TestServeLimits has clients that are slow on purpose.
func TestServeLimits(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		send string
		want time.Duration
	}{
		{"says nothing", "", 5 * time.Second},
		{"half a header", "GET / HTTP/1.1\r\nHos", 5 * time.Second},
		{"half a body", "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nhalf", 60 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, r *http.Request) {
					if _, err := io.ReadAll(r.Body); err == nil {
						t.Error("the handler read a body that has no end")
					}
				})
				if took := cutAfter(s.send(tt.send)); took < tt.want || took > tt.want+time.Second {
					t.Errorf("closed after %s, want %s", took, tt.want)
				}
				if err := s.end(); err != nil {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

// TestServeIdle keeps a connection for the next request, but not for ever.
func TestServeIdle(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
		c := s.send(request)
		for range 3 {
			if code, _ := s.answer(c); code != 200 {
				t.Errorf("answer %d", code)
			}
			time.Sleep(time.Minute)
			io.WriteString(c, request)
		}
		if code, _ := s.answer(c); code != 200 {
			t.Errorf("answer %d", code)
		}
		if took := cutAfter(c); took != 120*time.Second {
			t.Errorf("closed after %s, want 120s", took)
		}
		if err := s.end(); err != nil {
			t.Errorf("Serve = %v", err)
		}
	})
}

func TestServeLargeHeader(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]int{30 << 10: 200, 40 << 10: 431} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := serve(t, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") })
				c := s.send("")
				go io.WriteString(c, "GET / HTTP/1.1\r\nHost: x\r\nX-Long: "+strings.Repeat("x", size)+"\r\n\r\n")
				if code, _ := s.answer(c); code != want {
					t.Errorf("answer %d, want %d", code, want)
				}
				c.Close()
				if err := s.end(); err != nil {
					t.Errorf("Serve = %v", err)
				}
			})
		})
	}
}

// TestServeEndedBefore closes the listener even if the end came before the
// start, so that the address is free when Serve has returned.
func TestServeEndedBefore(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 100 {
		ln := newPipes()
		if err := httpserve.Serve(ctx, ln, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err != nil {
			t.Errorf("Serve = %v", err)
		}
		select {
		case <-ln.closed:
		default:
			t.Fatal("the listener is open")
		}
	}
}

// TestServeFails has a listener that somebody else closed.
func TestServeFails(t *testing.T) {
	t.Parallel()
	ln := newPipes()
	ln.Close()
	if err := httpserve.Serve(t.Context(), ln, http.NotFoundHandler(), slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "pipes") {
		t.Errorf("Serve = %v, want an error that names the listener", err)
	}
}
