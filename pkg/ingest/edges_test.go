package ingest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// edged changes the source github.
func edged(change func(*source.Edges)) func(*ingest.Options) {
	return func(o *ingest.Options) {
		for i := range o.Sources {
			if o.Sources[i].Name == "github" {
				change(&o.Sources[i].Edges)
			}
		}
	}
}

// from sends d as if from an address.
func (r *rig) from(peer string, d delivery) *httptest.ResponseRecorder {
	w, req := httptest.NewRecorder(), d.request()
	req.RemoteAddr = peer
	r.ServeHTTP(w, req)
	return w
}

// 48: an address is a second lock, and never opens the first.
func TestAllowIPs(t *testing.T) {
	t.Parallel()
	wrong := toGitHub(t, `{}`)
	wrong.body = `{"a":1}`
	forwarded := toGitHub(t, `{}`)
	forwarded.header.Set("X-Forwarded-For", "192.0.2.7")
	behind := toGitHub(t, `{}`)
	behind.header.Set("X-Forwarded-For", "192.0.2.7, 198.51.100.1")
	tests := []struct {
		name, peer string
		d          delivery
		code       int
		reason     string
	}{
		{"allowed", "192.0.2.7:1", toGitHub(t, `{}`), 200, ""},
		{"not allowed", "198.51.100.1:1", toGitHub(t, `{}`), 403, "address"},
		{"allowed, and not signed", "192.0.2.7:1", wrong, 401, "no_match"},
		{"48 says it is allowed", "198.51.100.1:1", forwarded, 403, "address"},
		{"allowed behind a proxy", "10.0.0.1:1", forwarded, 200, ""},
		{"48 says so to the proxy", "10.0.0.1:1", behind, 403, "address"},
		{"no address", "@", toGitHub(t, `{}`), 403, "address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, edged(func(e *source.Edges) { e.AllowIPs = []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")} }),
				func(o *ingest.Options) { o.Proxies = ingest.Proxies{netip.MustParsePrefix("10.0.0.0/8")} })
			w := r.from(tt.peer, tt.d)
			if w.Code != tt.code || len(r.reports) != 1 || r.reports[0].Reason != tt.reason {
				t.Errorf("answered %d %s, reported %+v, want %d %s", w.Code, w.Body, r.reports, tt.code, tt.reason)
			}
			if n := len(r.queue.got()); (n == 1) != (tt.code == 200) {
				t.Errorf("the queue got %d events", n)
			}
			if tt.code == 403 && !strings.Contains(w.Body.String(), "Not allowed from this address.") {
				t.Errorf("answered %s", w.Body)
			}
		})
	}
}

// A fakeLimiter says what it is told to, and counts.
type fakeLimiter struct {
	wait time.Duration
	err  error
	took int
}

func (l *fakeLimiter) Take(_ context.Context, name string, count int, per time.Duration) (time.Duration, error) {
	if name != "github" || count != 100 || per != time.Minute {
		return 0, errors.New("asked of another rate")
	}
	l.took++
	return l.wait, l.err
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	forged := toGitHub(t, `{}`)
	forged.body = `{"a":1}`
	unreadable := toGitHub(t, `[]`)
	tests := []struct {
		name    string
		limiter fakeLimiter
		away    bool
		final   bool
		d       delivery
		code    int
		retry   string
		took    int
		want    ingest.Report
	}{
		{"within", fakeLimiter{}, false, false, toGitHub(t, `{}`), 200, "", 1, ingest.Report{Outcome: "accepted"}},
		{"over", fakeLimiter{wait: time.Millisecond}, false, false, toGitHub(t, `{}`), 429, "1", 1, ingest.Report{Outcome: "error", Reason: "rate_limited"}},
		{"over for long", fakeLimiter{wait: 36001 * time.Millisecond}, false, false, toGitHub(t, `{}`), 429, "37", 1, ingest.Report{Outcome: "error", Reason: "rate_limited"}},
		{"over, of a provider that gives up at 4xx", fakeLimiter{wait: 2 * time.Second}, false, true, toGitHub(t, `{}`), 503, "2", 1, ingest.Report{Outcome: "error", Reason: "rate_limited"}},
		{"redis does not say", fakeLimiter{wait: time.Hour, err: errors.New("slow")}, false, false, toGitHub(t, `{}`), 200, "", 1, ingest.Report{Outcome: "accepted", NoRateLimit: true}},
		{"redis is away", fakeLimiter{wait: time.Hour}, true, false, toGitHub(t, `{}`), 200, "", 0, ingest.Report{Outcome: "accepted", NoRateLimit: true}},
		{"a stranger's", fakeLimiter{wait: time.Hour}, false, false, forged, 401, "", 0, ingest.Report{Outcome: "error", Reason: "no_match"}},
		{"unreadable", fakeLimiter{wait: time.Hour}, false, false, unreadable, 400, "", 0, ingest.Report{Outcome: "error", Reason: "invalid"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, edged(func(e *source.Edges) {
				e.RateLimit, e.FinalClientErrors = source.Rate{Count: 100, Per: time.Minute}, tt.final
			}), func(o *ingest.Options) { o.Limiter, o.Away = &tt.limiter, func() bool { return tt.away } })
			w := r.send(tt.d)
			if w.Code != tt.code || w.Header().Get("Retry-After") != tt.retry || tt.limiter.took != tt.took {
				t.Errorf("answered %d %s, Retry-After %q, counted %d", w.Code, w.Body, w.Header().Get("Retry-After"), tt.limiter.took)
			}
			tt.want.Source = "github"
			if len(r.reports) != 1 || r.reports[0] != tt.want {
				t.Errorf("reported %+v, want %+v", r.reports, tt.want)
			}
			if n := len(r.queue.got()); (n == 1) != (tt.code == 200) {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}

// A fakeReplays is a map.
type fakeReplays struct {
	mu    sync.Mutex
	known map[[sha256.Size]byte]string
	err   error
	asked int
}

func (f *fakeReplays) First(_ context.Context, _ string, sum [sha256.Size]byte) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked++
	return f.known[sum], f.err
}

func (f *fakeReplays) Held(_ string, sum [sha256.Size]byte, ids string, window time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.known[sum]; !ok && window == time.Hour {
		f.known[sum] = ids
	}
}

func withReplays(f *fakeReplays) func(*ingest.Options) {
	f.known = map[[sha256.Size]byte]string{}
	return func(o *ingest.Options) {
		edged(func(e *source.Edges) { e.Replay = time.Hour })(o)
		o.Replays = f
	}
}

// again is a delivery to github under another id.
func again(tb testing.TB, id, body string) delivery {
	tb.Helper()
	d := toGitHub(tb, body)
	d.header.Set("X-GitHub-Delivery", id)
	return d
}

// 45: bytes that come again under a fresh id are the event that they were.
func TestReplay(t *testing.T) {
	t.Parallel()
	otherType := again(t, "d-2", `{}`)
	otherType.header.Set("X-GitHub-Event", "push")
	tests := []struct {
		name    string
		d       delivery
		receipt webhook.Receipt // of the second
		want    answer
		layer   string
		heldAs  string
	}{
		{"45 replayed", again(t, "d-2", `{}`), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"},
			answer{"duplicate", "Duplicate event: processing is already in progress.", "d-2"}, "replay", "d-1"},
		{"45 replayed when done", again(t, "d-2", `{}`), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", Done: true},
			answer{"duplicate", "Duplicate event: already processed.", "d-2"}, "replay", "d-1"},
		{"45 replayed when the queue has forgotten", again(t, "d-2", `{}`), webhook.Receipt{Outcome: webhook.Accepted},
			answer{"duplicate", "Duplicate event: processing is already in progress.", "d-2"}, "replay", "d-1"},
		{"sent again under a fresh id when dead", again(t, "d-2", `{}`), webhook.Receipt{Outcome: webhook.Requeued},
			answer{"requeued", "Dead event accepted again.", "d-2"}, "", "d-1"},
		{"redelivered", again(t, "d-1", `{}`), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"},
			answer{"duplicate", "Duplicate event: processing is already in progress.", "d-1"}, "taskid", "d-1"},
		{"other bytes", again(t, "d-2", `{ }`), webhook.Receipt{Outcome: webhook.Accepted},
			answer{"accepted", "Event accepted for processing.", "d-2"}, "", "d-2"},
		{"another type of event", otherType, webhook.Receipt{Outcome: webhook.Accepted},
			answer{"accepted", "Event accepted for processing.", "d-2"}, "", "d-2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, withReplays(&fakeReplays{}))
			if w := r.send(again(t, "d-1", `{}`)); w.Code != 200 {
				t.Fatalf("the first was answered %d %s", w.Code, w.Body)
			}
			r.queue.answer = answers(tt.receipt, nil)
			w := r.send(tt.d)
			if got, err := parse(w.Body.Bytes()); w.Code != 200 || got != tt.want || err != nil {
				t.Errorf("answered %d %+v, %v, want %+v", w.Code, got, err, tt.want)
			}
			if got := r.reports[1]; got.Layer != tt.layer || got.NoReplayCheck {
				t.Errorf("reported %+v, want the layer %q", got, tt.layer)
			}
			if ev := r.queue.got()[1]; ev.ID != tt.heldAs || string(ev.Body) != tt.d.body {
				t.Errorf("held as %s, want %s", ev.ID, tt.heldAs)
			}
			if replayed := strings.Contains(r.log.String(), "replay: the same bytes came under another id"); replayed != (tt.heldAs != tt.want.EventID) {
				t.Errorf("log:\n%s", r.log)
			}
		})
	}
}

// What was not held is no first: the mark of an event that nobody has would
// lose the next.
func TestReplayOfWhatWasNotHeld(t *testing.T) {
	t.Parallel()
	r := newRig(t, withReplays(&fakeReplays{}))
	r.queue.answer = answers(webhook.Receipt{}, webhook.ErrNotHeld)
	if w := r.send(again(t, "d-1", `{}`)); w.Code != 503 {
		t.Fatalf("the first was answered %d", w.Code)
	}
	r.queue.answer = nil
	for _, id := range []string{"d-2", "d-1"} {
		w := r.send(again(t, id, `{}`))
		if w.Code != 200 {
			t.Errorf("%s was answered %d %s", id, w.Code, w.Body)
		}
	}
	if events := r.queue.got(); len(events) != 3 || events[1].ID != "d-2" || events[2].ID != "d-2" {
		t.Errorf("the queue got %+v, want d-2 held as it is, and d-1 as d-2", events)
	}
}

// Where Redis does not say, deliveries are taken as they are.
func TestReplayNotKnown(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		err  error
		away bool
	}{{"slow", context.DeadlineExceeded, false}, {"away", nil, true}} {
		f := &fakeReplays{err: tt.err}
		r := newRig(t, withReplays(f), func(o *ingest.Options) { o.Away = func() bool { return tt.away } })
		for i, id := range []string{"d-1", "d-2"} {
			if w := r.send(again(t, id, `{}`)); w.Code != 200 || !r.reports[i].NoReplayCheck || r.reports[i].Outcome != webhook.Accepted {
				t.Errorf("%s: %s was answered %d, reported %+v", tt.name, id, w.Code, r.reports[i])
			}
		}
		if want := map[bool]int{false: 2, true: 0}[tt.away]; f.asked != want {
			t.Errorf("%s: asked %d times, want %d", tt.name, f.asked, want)
		}
	}
}

// Sources whose id is signed have no check, and pay for none.
func TestReplayOff(t *testing.T) {
	t.Parallel()
	f := &fakeReplays{}
	r := newRig(t, withReplays(f), edged(func(e *source.Edges) { e.Replay = 0 }))
	for _, d := range []delivery{again(t, "d-1", `{}`), again(t, "d-2", `{}`), toStandard(t, `{"type":"x"}`, noon)} {
		if w := r.send(d); w.Code != http.StatusOK {
			t.Errorf("answered %d %s", w.Code, w.Body)
		}
	}
	if f.asked != 0 || len(f.known) != 0 || len(r.queue.got()) != 3 {
		t.Errorf("asked %d times, knows %d, held %d", f.asked, len(f.known), len(r.queue.got()))
	}
}
