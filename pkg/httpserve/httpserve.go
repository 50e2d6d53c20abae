// Package httpserve runs an HTTP server until a context ends, and serves what
// operators ask of a program. It serves our own programs and promises nothing
// to others.
package httpserve

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"
)

// Limits of a connection. A body of 64 MiB at 20 Mbit/s takes 27 s.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 60 * time.Second
	writeTimeout      = 75 * time.Second // from the end of the headers: reading, and then answering
	idleTimeout       = 120 * time.Second
	maxHeaderBytes    = 32 << 10
	grace             = 10 * time.Second
)

// Serve answers requests on ln until ctx ends. Then it takes no new ones,
// answers those it has for up to 10 s, and closes what is left. It closes ln.
func Serve(ctx context.Context, ln net.Listener, h http.Handler, log *slog.Logger) error {
	srv := &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ConnState:         tellIdle,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(ln) }()
	select {
	case err := <-failed:
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	case <-ctx.Done():
	}
	bounded, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
	defer cancel()
	err := srv.Shutdown(bounded)
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) { // it closes ln, if it had not begun before Shutdown
		return fmt.Errorf("serve %s: %w", ln.Addr(), err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("shut down %s: %w", ln.Addr(), err), srv.Close())
	}
	return nil
}

// tellIdle tells a connection that wants to know when it has answered a request
// and waits for the next.
func tellIdle(c net.Conn, s http.ConnState) {
	if i, ok := c.(interface{ Idle() }); ok && s == http.StateIdle {
		i.Idle()
	}
}

// A Check looks at one thing that a program needs. Its error keeps the program
// from doing its job now; its note is for people, and may be "".
type Check struct {
	Name string
	Run  func(context.Context) (note string, err error)
}

// checkTimeout bounds all checks of one /readyz.
const checkTimeout = 2 * time.Second

// Ops answers what operators and their machines ask, without login:
//
//	GET /healthz  the process is alive
//	GET /readyz   it can do its job now; 503 and a line for each check that says no
//	GET /metrics  for Prometheus
func Ops(metrics http.Handler, checks ...Check) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) { ready(w, r, checks) })
	mux.Handle("GET /metrics", metrics)
	return mux
}

func ready(w http.ResponseWriter, r *http.Request, checks []Check) {
	ctx, cancel := context.WithTimeout(r.Context(), checkTimeout)
	defer cancel()
	text, code := "", http.StatusOK
	for _, c := range checks {
		note, err := c.Run(ctx)
		if err != nil {
			note, code = err.Error(), http.StatusServiceUnavailable
		}
		text += c.Name + ": " + cmp.Or(note, "ok") + "\n"
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(code)
	io.WriteString(w, text)
}
