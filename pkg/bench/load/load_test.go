package load_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
	"github.com/hookonce/hookonce/pkg/signature"
)

const secret = "whsec_a longer secret than one block of the hash takes, since that has a path of its own"

// A receiver checks each delivery as a program would, and counts.
type receiver struct {
	*httptest.Server
	verifier *signature.Verifier
	answer   func(w http.ResponseWriter, id string, first bool)
	sizes    sync.Map

	mu   sync.Mutex
	seen map[string]int
	bad  []string
}

func newReceiver(t *testing.T, answer func(w http.ResponseWriter, id string, first bool)) *receiver {
	t.Helper()
	v, err := signature.Stripe().Verifier([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	r := &receiver{verifier: v, answer: answer, seen: map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(func() {
		r.Close()
		if len(r.bad) > 0 {
			t.Errorf("%d bad deliveries, the first: %s", len(r.bad), r.bad[0])
		}
	})
	return r
}

func (r *receiver) addr() string { return strings.TrimPrefix(r.URL, "http://") }

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	var ev struct{ ID, Type string }
	err := json.Unmarshal(body, &ev)
	if err == nil {
		err = r.verifier.Verify(signature.Request{Method: req.Method, Header: req.Header, Body: body}, time.Now())
	}
	r.sizes.Store(len(body), true)
	r.mu.Lock()
	if err != nil || ev.Type == "" || req.URL.Path != "/webhooks/main" {
		r.bad = append(r.bad, fmt.Sprint(req.URL.Path, err, string(body)))
	}
	r.seen[ev.ID]++
	first := r.seen[ev.ID] == 1
	r.mu.Unlock()
	r.answer(w, ev.ID, first)
}

func honest(w http.ResponseWriter, _ string, first bool) {
	status := "accepted"
	if !first {
		status = "duplicate"
	}
	json.NewEncoder(w).Encode(map[string]string{"status": status})
}

// engines runs a test with each of them.
func engines(t *testing.T, test func(t *testing.T, fire func(load.Load) load.Result)) {
	t.Helper()
	t.Parallel()
	for name, engine := range map[string]func(context.Context, load.Load) (load.Result, error){"system": load.Fire, "portable": load.FirePortably} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, func(l load.Load) load.Result {
				l.Paths = []string{"/webhooks/main"}
				res, err := engine(context.Background(), l)
				if err != nil {
					t.Fatal(err)
				}
				return res
			})
		})
	}
}

func TestClosedLoopCountsWhatTheServerSaw(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		for _, size := range []int{0, 512, 4 << 10, 64 << 10} {
			r := newReceiver(t, honest)
			m := load.NewMaker(secret, size)
			m.Copies = 0.3
			res := fire(load.Load{Addr: r.addr(), Maker: m, Conns: 4, Warm: 50 * time.Millisecond, For: 200 * time.Millisecond})
			if res.All.New != len(r.seen) || res.All.New != m.Made() {
				t.Errorf("size %d: %d new, the server saw %d, %d were made", size, res.All.New, len(r.seen), m.Made())
			}
			if res.All.Duplicate == 0 || res.Failed+res.Lost+res.Refused > 0 {
				t.Errorf("size %d: %+v, want duplicates and nothing bad", size, res.All)
			}
			if res.Answered() != len(res.Acks) || res.Acks.At(0.5) <= 0 || res.CPU <= 0 {
				t.Errorf("size %d: %d answered, %d times, CPU %s", size, res.Answered(), len(res.Acks), res.CPU)
			}
			if _, ok := r.sizes.Load(size); size > 0 && !ok {
				t.Errorf("no body of %d bytes came", size)
			}
		}
	})
}

func TestCountedDeliveriesAndAgain(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		r := newReceiver(t, honest)
		m := load.NewMaker(secret, 512)
		if res := fire(load.Load{Addr: r.addr(), Maker: m, Conns: 8, Count: 500}); res.New != 500 || len(r.seen) != 500 {
			t.Fatalf("%+v, the server saw %d, want 500", res.Counts, len(r.seen))
		}
		res := fire(load.Load{Addr: r.addr(), Maker: m.Again(), Conns: 8, Count: 700})
		if res.Duplicate != 700 || len(r.seen) != 500 {
			t.Errorf("%+v, the server saw %d, want 700 duplicates of 500", res.Counts, len(r.seen))
		}
	})
}

// A server that stalls is charged with all that was to be sent meanwhile.
func TestOpenLoopOmitsNothing(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		var stalled atomic.Bool
		began := time.Now()
		var mu sync.RWMutex
		r := newReceiver(t, func(w http.ResponseWriter, id string, first bool) {
			if time.Since(began) > 500*time.Millisecond && stalled.CompareAndSwap(false, true) {
				mu.Lock()
				time.Sleep(400 * time.Millisecond)
				mu.Unlock()
			}
			mu.RLock()
			defer mu.RUnlock()
			honest(w, id, first)
		})
		res := fire(load.Load{Addr: r.addr(), Maker: load.NewMaker(secret, 512), Conns: 4, Rate: 500, Warm: 200 * time.Millisecond, For: time.Second})
		if res.Offered < 400 || res.Offered > 600 {
			t.Errorf("offered %.0f/s, want 500", res.Offered)
		}
		if p80 := res.Acks.At(0.8); p80 < 50*time.Millisecond {
			t.Errorf("p80 is %s: a stall of 400 ms in 1 s must show in far more than 4 of 500 answers", p80)
		}
		if res.Lost+res.Failed > 0 {
			t.Errorf("%+v", res.Counts)
		}
	})
}

func TestOpenLoopGrows(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		var now, most atomic.Int64
		r := newReceiver(t, func(w http.ResponseWriter, id string, first bool) {
			n := now.Add(1)
			defer now.Add(-1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			time.Sleep(50 * time.Millisecond)
			honest(w, id, first)
		})
		fire(load.Load{Addr: r.addr(), Maker: load.NewMaker(secret, 512), Conns: 1, Most: 30, Rate: 1000, For: time.Second})
		if got := most.Load(); got < 10 || got > 30 {
			t.Errorf("%d deliveries were on their way at once, want about 30", got)
		}
	})
}

func TestAnswersOfEveryKind(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		var n atomic.Int64
		r := newReceiver(t, func(w http.ResponseWriter, _ string, _ bool) {
			switch n.Add(1) % 5 {
			case 0:
				w.Header().Set("Retry-After", "5")
				w.WriteHeader(http.StatusServiceUnavailable)
				io.WriteString(w, "{}")
			case 1:
				w.WriteHeader(http.StatusServiceUnavailable)
			case 2:
				w.Header().Set("Connection", "close")
				io.WriteString(w, strings.Repeat("x", 1000))
			case 3:
				w.WriteHeader(http.StatusNoContent)
			case 4:
				panic(http.ErrAbortHandler)
			}
		})
		res := fire(load.Load{Addr: r.addr(), Maker: load.NewMaker(secret, 512), Conns: 1, Count: 500})
		if want := (load.Counts{New: 200, Refused: 100, Failed: 100, Lost: 100}); res.Counts != want {
			t.Errorf("%+v, want %+v", res.Counts, want)
		}
		if !strings.HasPrefix(res.FirstFail, "HTTP/1.1 503") {
			t.Errorf("first failure %q", res.FirstFail)
		}
	})
}

func TestEndsWithItsContext(t *testing.T) {
	t.Parallel()
	r := newReceiver(t, honest)
	for _, engine := range []func(context.Context, load.Load) (load.Result, error){load.Fire, load.FirePortably} {
		for _, rate := range []float64{0, 100} {
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			_, err := engine(ctx, load.Load{Addr: r.addr(), Paths: []string{"/webhooks/main"}, Maker: load.NewMaker(secret, 0), Conns: 2, Rate: rate, For: time.Minute})
			cancel()
			if err == nil {
				t.Errorf("rate %v: no error", rate)
			}
		}
	}
}

// A server that goes away costs deliveries, not the run.
func TestServerGone(t *testing.T) {
	engines(t, func(t *testing.T, fire func(load.Load) load.Result) {
		t.Helper()
		for _, rate := range []float64{0, 500} {
			r := newReceiver(t, honest)
			time.AfterFunc(200*time.Millisecond, func() { r.CloseClientConnections(); r.Listener.Close() })
			res := fire(load.Load{Addr: r.addr(), Maker: load.NewMaker(secret, 512), Conns: 4, Rate: rate, For: 600 * time.Millisecond})
			if res.New == 0 || res.Lost == 0 {
				t.Errorf("rate %v: %+v, want some of both", rate, res.Counts)
			}
		}
	})
}
