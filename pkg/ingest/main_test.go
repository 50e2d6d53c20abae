package ingest_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// noon is when every delivery comes, unless a test says otherwise.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func atNoon() time.Time { return noon }

// The secrets hold a word that must never be seen again.
const (
	canary   = "canary-4f1d"
	secret   = "s3cret-" + canary
	oldOne   = "0ld-s3cret-" + canary
	whsec    = "whsec_czNjcmV0LWNhbmFyeS00ZjFk" // secret, in base64
	rotated  = "rotated"                        // a source with two secrets
	small    = "small"                          // a source that takes 64 bytes
	smallCap = 64
)

// A fakeQueue keeps what it is given, and says what it is told to.
type fakeQueue struct {
	answer func(context.Context, webhook.Event) (webhook.Receipt, error) // nil: accepted

	mu     sync.Mutex
	events []webhook.Event
}

func (q *fakeQueue) Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	q.mu.Lock()
	q.events = append(q.events, ev)
	q.mu.Unlock()
	if q.answer == nil {
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	return q.answer(ctx, ev)
}

func (q *fakeQueue) got() []webhook.Event {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.events
}

// answers makes a queue that always says the same.
func answers(r webhook.Receipt, err error) func(context.Context, webhook.Event) (webhook.Receipt, error) {
	return func(context.Context, webhook.Event) (webhook.Receipt, error) { return r, err }
}

// A record is a buffer for many writers.
type record struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (r *record) Write(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.Write(p)
}

func (r *record) String() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.buf.String()
}

// A rig is ingest with a queue, a log and metrics that can be looked at.
type rig struct {
	http.Handler
	queue *fakeQueue
	log   *record
	door  *ingest.Door

	mu      sync.Mutex
	reports []ingest.Report
}

func newRig(tb testing.TB, change ...func(*ingest.Options)) *rig {
	tb.Helper()
	r := &rig{queue: &fakeQueue{}, log: &record{}}
	o := ingest.Options{
		Queue:      r.queue,
		Sources:    sources(tb),
		AckTimeout: time.Minute,
		Now:        atNoon,
		Observe:    r.observe,
		Log:        slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, f := range change {
		f(&o)
	}
	if o.Door == nil {
		o.Door = ingest.NewDoor(2000, o.Now, o.Observe, o.Log)
	}
	r.door, r.Handler = o.Door, ingest.New(o)
	return r
}

func (r *rig) observe(report ingest.Report) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.reports = append(r.reports, report)
}

// logged returns the lines of the log, without their time.
func (r *rig) logged(t *testing.T) []map[string]any {
	t.Helper()
	var lines []map[string]any
	for dec := json.NewDecoder(strings.NewReader(r.log.String())); ; {
		var line map[string]any
		if err := dec.Decode(&line); err == io.EOF {
			return lines
		} else if err != nil {
			t.Fatal(err)
		}
		delete(line, "time")
		lines = append(lines, line)
	}
}

// sources are one of each preset, and some for a single purpose.
func sources(tb testing.TB) []source.Source {
	tb.Helper()
	all := []source.Source{
		source.Default(),
		preset(tb, "github", "github", secret),
		preset(tb, "stripe", "stripe", secret),
		preset(tb, "standard-webhooks", "standard-webhooks", whsec),
		preset(tb, rotated, "github", secret, oldOne),
		preset(tb, "other", "github", "another-"+canary),
	}
	for name, code := range map[string]int{"says-202": http.StatusAccepted, "says-204": http.StatusNoContent} {
		src := source.Default()
		src.Name, src.AckStatus = name, code
		all = append(all, src)
	}
	tiny := preset(tb, small, "github", secret)
	tiny.MaxBody = smallCap
	large := preset(tb, "large", "github", secret)
	large.MaxBody = 25 << 20
	return append(all, tiny, large)
}

func preset(tb testing.TB, name, provider string, secrets ...string) source.Source {
	tb.Helper()
	p, ok := source.FindPreset(provider)
	if !ok {
		tb.Fatalf("no preset %s", provider)
	}
	src := p.Source(name)
	src.Verifier = verifier(tb, p.Scheme, secrets...)
	return src
}

func verifier(tb testing.TB, s signature.Scheme, secrets ...string) *signature.Verifier {
	tb.Helper()
	v, err := s.Verifier(secrets)
	if err != nil {
		tb.Fatal(err)
	}
	return v
}

// A delivery is a request that a test can still spoil.
type delivery struct {
	method string
	target string
	header http.Header
	body   string
}

// send has the handler answer d.
func (r *rig) send(d delivery) *httptest.ResponseRecorder {
	w := httptest.NewRecorder()
	r.ServeHTTP(w, d.request())
	return w
}

func (d delivery) request() *http.Request {
	req := httptest.NewRequest(d.method, d.target, strings.NewReader(d.body))
	req.Header = d.header
	return req
}

const payment = `{"event_id":"evt_1","event_type":"payment.captured","amount":1099,"timestamp":1700000000}`

// toDefault returns a valid delivery of body to the source default.
func toDefault(body string) delivery {
	return delivery{"POST", "/webhooks", http.Header{"Content-Type": {"application/json"}}, body}
}

// signed returns the headers that v's provider would send with body.
func signed(tb testing.TB, v *signature.Verifier, id, body string, sent time.Time) http.Header {
	tb.Helper()
	r, err := v.Sign(signature.Request{Method: "POST", Body: []byte(body)}, id, sent)
	if err != nil {
		tb.Fatal(err)
	}
	return r.Header
}

// toGitHub returns a valid delivery with the id d-1 to a source of the preset github.
func toGitHub(tb testing.TB, body string) delivery {
	tb.Helper()
	h := signed(tb, verifier(tb, signature.GitHub(), secret), "", body, noon)
	h.Set("Content-Type", "application/json")
	h.Set("X-GitHub-Delivery", "d-1")
	h.Set("X-GitHub-Event", "issues")
	return delivery{"POST", "/webhooks/github", h, body}
}

// toStripe returns a valid delivery to the source stripe that was sent at a time.
func toStripe(tb testing.TB, body string, sent time.Time) delivery {
	tb.Helper()
	h := signed(tb, verifier(tb, signature.Stripe(), secret), "", body, sent)
	h.Set("Content-Type", "application/json")
	return delivery{"POST", "/webhooks/stripe", h, body}
}

// toStandard returns a valid delivery with the id msg_1 to the source
// standard-webhooks that was sent at a time.
func toStandard(tb testing.TB, body string, sent time.Time) delivery {
	tb.Helper()
	h := signed(tb, verifier(tb, signature.StandardWebhooks("webhook"), whsec), "msg_1", body, sent)
	h.Set("Content-Type", "application/json")
	return delivery{"POST", "/webhooks/standard-webhooks", h, body}
}

// An answer is what a provider reads.
type answer struct{ Status, Message, EventID string }

// parse reads an answer, which must have its three fields and nothing else.
func parse(body []byte) (answer, error) {
	var v map[string]string
	if err := json.Unmarshal(body, &v); err != nil {
		return answer{}, fmt.Errorf("answer %q: %w", body, err)
	}
	a := answer{v["status"], v["message"], v["event_id"]}
	if len(v) != 3 || a.Status == "" || a.Message == "" || a.EventID == "" {
		return a, fmt.Errorf("answer %q: want status, message and event_id", body)
	}
	return a, nil
}

// checkRefused checks that d is refused with these words, and that nothing is kept of it.
func checkRefused(t *testing.T, d delivery, code int, want answer) {
	t.Helper()
	r := newRig(t)
	w := r.send(d)
	got, err := parse(w.Body.Bytes())
	if w.Code != code || got != want || err != nil {
		t.Errorf("%s %s answered %d %+v, %v, want %d %+v", d.method, d.target, w.Code, got, err, code, want)
	}
	if events := r.queue.got(); len(events) != 0 {
		t.Errorf("%s %s: the queue got %q", d.method, d.target, events[0].ID)
	}
	if len(r.reports) != 1 || r.reports[0].Outcome != webhook.Refused || r.reports[0].Reason == "" {
		t.Errorf("%s %s reported %+v, want one refusal", d.method, d.target, r.reports)
	}
}

// checkHeld checks that d is accepted, and that the queue gets its bytes under id.
func checkHeld(t *testing.T, d delivery, id string) webhook.Event {
	t.Helper()
	r := newRig(t)
	w := r.send(d)
	got, err := parse(w.Body.Bytes())
	if want := (answer{"accepted", "Event accepted for processing.", id}); w.Code != 200 || got != want || err != nil {
		t.Fatalf("%s answered %d %+v, %v, want 200 %+v", d.target, w.Code, got, err, want)
	}
	events := r.queue.got()
	if len(events) != 1 || events[0].ID != id || string(events[0].Body) != d.body {
		t.Fatalf("%s: the queue got %d events, want one with the id %q and the body as sent", d.target, len(events), id)
	}
	return events[0]
}
