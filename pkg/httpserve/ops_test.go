package httpserve_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/httpserve"
)

func check(name, note string, err error) httpserve.Check {
	return httpserve.Check{Name: name, Run: func(context.Context) (string, error) { return note, err }}
}

func ask(h http.Handler, method, path string) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(method, path, nil))
	return w
}

func TestOps(t *testing.T) {
	t.Parallel()
	metrics := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "some 1\n") })
	h := httpserve.Ops(metrics, check("redis", "", nil))
	tests := []struct {
		method, path string
		code         int
		body         string // "*": any
	}{
		{"GET", "/healthz", 200, "ok\n"},
		{"HEAD", "/healthz", 200, "*"},
		{"POST", "/healthz", 405, "*"},
		{"GET", "/readyz", 200, "redis: ok\n"},
		{"HEAD", "/readyz", 200, "*"},
		{"POST", "/readyz", 405, "*"},
		{"GET", "/metrics", 200, "some 1\n"},
		{"POST", "/metrics", 405, "*"},
		{"DELETE", "/metrics", 405, "*"},
		{"GET", "/", 404, "*"},
		{"GET", "/healthz/", 404, "*"},
		{"GET", "/webhooks", 404, "*"},
		{"POST", "/webhooks/shop", 404, "*"},
		{"GET", "/debug/pprof/", 404, "*"},
	}
	for _, tt := range tests {
		w := ask(h, tt.method, tt.path)
		if body := w.Body.String(); w.Code != tt.code || tt.body != "*" && body != tt.body {
			t.Errorf("%s %s = %d %q, want %d %q", tt.method, tt.path, w.Code, body, tt.code, tt.body)
		}
		if w.Code == 405 && w.Header().Get("Allow") != "GET, HEAD" {
			t.Errorf("%s %s: Allow: %q", tt.method, tt.path, w.Header().Get("Allow"))
		}
	}
}

func TestReady(t *testing.T) {
	t.Parallel()
	errDown := errors.New("connection refused")
	tests := []struct {
		name   string
		checks []httpserve.Check
		code   int
		body   string
	}{
		{"no checks", nil, 200, ""},
		{"all well", []httpserve.Check{check("redis", "", nil), check("postgres", "", nil)}, 200, "redis: ok\npostgres: ok\n"},
		{"a note", []httpserve.Check{check("redis", "ok, but it forgets", nil)}, 200, "redis: ok, but it forgets\n"},
		{"the first down", []httpserve.Check{check("redis", "", errDown), check("postgres", "", nil)}, 503, "redis: connection refused\npostgres: ok\n"},
		{"the last down", []httpserve.Check{check("redis", "", nil), check("postgres", "", errDown)}, 503, "redis: ok\npostgres: connection refused\n"},
		{"down with a note", []httpserve.Check{check("redis", "ok", errDown)}, 503, "redis: connection refused\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := ask(httpserve.Ops(http.NotFoundHandler(), tt.checks...), "GET", "/readyz")
			if body := w.Body.String(); w.Code != tt.code || body != tt.body {
				t.Errorf("GET /readyz = %d %q, want %d %q", w.Code, body, tt.code, tt.body)
			}
			if kind := w.Header().Get("Content-Type"); kind != "text/plain; charset=utf-8" {
				t.Errorf("Content-Type %q", kind)
			}
		})
	}
}

// TestReadyHangs has checks that get no answer: together they take 2 s.
func TestReadyHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) (string, error) { <-ctx.Done(); return "", ctx.Err() }
		h := httpserve.Ops(http.NotFoundHandler(), httpserve.Check{Name: "a", Run: hangs}, httpserve.Check{Name: "b", Run: hangs})
		start := time.Now()
		if w := ask(h, "GET", "/readyz"); w.Code != 503 {
			t.Errorf("GET /readyz = %d", w.Code)
		}
		if took := time.Since(start); took != 2*time.Second {
			t.Errorf("took %s, want 2s", took)
		}
	})
}
