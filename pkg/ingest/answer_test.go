package ingest_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/webhook"
)

const notHeld = `{"status":"error","message":"The event cannot be held now: send it again.","event_id":"evt_1"}`

func TestAnswerOfAHeldEvent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		target  string
		receipt webhook.Receipt
		code    int
		body    string
	}{
		{"accepted", "/webhooks", webhook.Receipt{Outcome: webhook.Accepted}, 200,
			`{"status":"accepted","message":"Event accepted for processing.","event_id":"evt_1"}`},
		{"77 in hand", "/webhooks", webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, 200,
			`{"status":"duplicate","message":"Duplicate event: processing is already in progress.","event_id":"evt_1"}`},
		{"77 done", "/webhooks", webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", Done: true}, 200,
			`{"status":"duplicate","message":"Duplicate event: already processed.","event_id":"evt_1"}`},
		{"76 other body", "/webhooks", webhook.Receipt{Outcome: webhook.Duplicate, Done: true, OtherBody: true}, 200,
			`{"status":"duplicate","message":"Duplicate event: already processed.","event_id":"evt_1"}`},
		{"77 dead", "/webhooks", webhook.Receipt{Outcome: webhook.Requeued}, 200,
			`{"status":"requeued","message":"Dead event accepted again.","event_id":"evt_1"}`},
		{"default by its name", "/webhooks/default", webhook.Receipt{Outcome: webhook.Accepted}, 200,
			`{"status":"accepted","message":"Event accepted for processing.","event_id":"evt_1"}`},
		{"202 accepted", "/webhooks/says-202", webhook.Receipt{Outcome: webhook.Accepted}, 202,
			`{"status":"accepted","message":"Event accepted for processing.","event_id":"evt_1"}`},
		{"202 duplicate", "/webhooks/says-202", webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, 202,
			`{"status":"duplicate","message":"Duplicate event: processing is already in progress.","event_id":"evt_1"}`},
		{"204 accepted", "/webhooks/says-204", webhook.Receipt{Outcome: webhook.Accepted}, 204, ""},
		{"204 duplicate", "/webhooks/says-204", webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, 204, ""},
		{"204 requeued", "/webhooks/says-204", webhook.Receipt{Outcome: webhook.Requeued}, 204, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.queue.answer = answers(tt.receipt, nil)
			d := toDefault(payment)
			d.target = tt.target
			w := r.send(d)
			if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != tt.code || got != tt.body {
				t.Errorf("answer = %d %s, want %d %s", w.Code, got, tt.code, tt.body)
			}
			if got := w.Header().Get("Content-Type"); tt.body != "" && got != "application/json" {
				t.Errorf("Content-Type = %q", got)
			}
			if h := w.Header(); h.Get("Retry-After")+h.Get("Allow")+h.Get("Connection") != "" {
				t.Errorf("headers of a success: %v", h)
			}
		})
	}
}

func TestAnswerOfARefusal(t *testing.T) {
	t.Parallel()
	// Each case starts from a valid delivery and spoils one thing.
	tests := []struct {
		name  string
		spoil func(d *delivery)
		code  int
		body  string
	}{
		{"malformed", func(d *delivery) { d.body = `{` }, 400,
			`{"status":"error","message":"Invalid payload: broken JSON at byte 1: unexpected EOF.","event_id":"unknown"}`},
		{"no id", func(d *delivery) { d.body = `{"event_type":"x","amount":1,"timestamp":1}` }, 400,
			`{"status":"error","message":"Invalid payload: event_id: is missing.","event_id":"unknown"}`},
		{"bad type, so the id is known", func(d *delivery) { d.body = `{"event_id":"evt_1","event_type":"","amount":1,"timestamp":1}` }, 400,
			`{"status":"error","message":"Invalid payload: event_type: is empty.","event_id":"evt_1"}`},
		{"bad amount, so the id is known", func(d *delivery) { d.body = strings.Replace(payment, "1099", "-1", 1) }, 400,
			`{"status":"error","message":"Invalid payload: amount: is negative.","event_id":"evt_1"}`},
		{"unverified", func(d *delivery) { d.target = "/webhooks/github" }, 401,
			`{"status":"error","message":"Signature verification failed.","event_id":"unknown"}`},
		{"unknown source", func(d *delivery) { d.target = "/webhooks/nobody" }, 404,
			`{"status":"error","message":"No such source.","event_id":"unknown"}`},
		{"unknown path", func(d *delivery) { d.target = "/" }, 404,
			`{"status":"error","message":"No such source.","event_id":"unknown"}`},
		{"method", func(d *delivery) { d.method = "PUT" }, 405,
			`{"status":"error","message":"Only POST is allowed.","event_id":"unknown"}`},
		{"method that HTTP does not know", func(d *delivery) { d.method = "BREW" }, 405,
			`{"status":"error","message":"Only POST is allowed.","event_id":"unknown"}`},
		{"too large", func(d *delivery) { d.target, d.body = "/webhooks/small", strings.Repeat(" ", smallCap+1) }, 413,
			`{"status":"error","message":"Payload too large: the limit is 64 bytes.","event_id":"unknown"}`},
		{"media type", func(d *delivery) { d.header.Set("Content-Type", "text/plain") }, 415,
			`{"status":"error","message":"Content-Type must be application/json.","event_id":"unknown"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, d := newRig(t), toDefault(payment)
			tt.spoil(&d)
			w := r.send(d)
			if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != tt.code || got != tt.body {
				t.Errorf("answer = %d %s, want %d %s", w.Code, got, tt.code, tt.body)
			}
			h := w.Header()
			if got := h.Get("Content-Type"); got != "application/json" {
				t.Errorf("Content-Type = %q", got)
			}
			if got := h.Get("Allow"); (got == "POST") != (tt.code == 405) {
				t.Errorf("Allow = %q with %d", got, tt.code)
			}
			if got := h.Get("Connection"); (got == "close") != (tt.code == 413) {
				t.Errorf("Connection = %q with %d", got, tt.code)
			}
			if got := h.Get("Retry-After"); got != "" {
				t.Errorf("Retry-After = %q with %d", got, tt.code)
			}
			if n := len(r.queue.got()); n != 0 {
				t.Errorf("the queue got %d events", n)
			}
		})
	}
}

// Whatever keeps the queue from holding an event, the provider is asked to try again.
func TestAnswerOfAnEventThatIsNotHeld(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		err  error
	}{
		{"88 89 as promised", fmt.Errorf("enqueue: %w: %w", webhook.ErrNotHeld, errors.New("connection refused"))},
		{"87 deadline", fmt.Errorf("%w: %w", webhook.ErrNotHeld, context.DeadlineExceeded)},
		{"canceled", context.Canceled},
		{"88 any other", errors.New("boom")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, target := range []string{"/webhooks", "/webhooks/says-202", "/webhooks/says-204"} {
				r := newRig(t)
				r.queue.answer = answers(webhook.Receipt{}, tt.err)
				d := toDefault(payment)
				d.target = target
				w := r.send(d)
				if got := strings.TrimSuffix(w.Body.String(), "\n"); w.Code != 503 || got != notHeld {
					t.Errorf("%s answered %d %s, want 503 %s", target, w.Code, got, notHeld)
				}
				if got := w.Header().Get("Retry-After"); got != "5" {
					t.Errorf("%s: Retry-After = %q", target, got)
				}
			}
		})
	}
}

func TestEvent(t *testing.T) {
	t.Parallel()
	const trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	d := toGitHub(t, `{"action":"pinned"}`)
	d.header.Set("Content-Type", "application/json; charset=UTF-8")
	d.header.Set("X-GitHub-Hook-ID", "292430182")
	d.header.Set("Traceparent", trace)
	ev := checkHeld(t, d, "d-1")
	if ev.Source != "github" || ev.Type != "issues.pinned" || ev.ContentType != "application/json; charset=UTF-8" || ev.TraceParent != trace {
		t.Errorf("event = %+v", ev)
	}
	if !ev.ReceivedAt.Equal(noon) || ev.SHA256 != sha256.Sum256([]byte(d.body)) || ev.Attempt != 0 {
		t.Errorf("event = %+v", ev)
	}
	if h := ev.Headers; len(h) != 2 || h["X-GitHub-Event"] != "issues" || h["X-GitHub-Hook-ID"] != "292430182" {
		t.Errorf("kept headers = %q", h)
	}
	if again := checkHeld(t, d, "d-1"); again.Delivery == ev.Delivery || ev.Delivery == "" {
		t.Errorf("two deliveries are called %q and %q", ev.Delivery, again.Delivery)
	}
}

func TestTraceParent(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"", "00", "00-4BF92F3577B34DA6A3CE929D0E0E4736-00f067aa0ba902b7-01", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01\n", canary} {
		d := toDefault(payment)
		d.header.Set("Traceparent", bad)
		if ev := checkHeld(t, d, "evt_1"); ev.TraceParent != "" {
			t.Errorf("of %q was kept %q", bad, ev.TraceParent)
		}
	}
}

// A queue that panics costs one answer.
func TestPanic(t *testing.T) {
	t.Parallel()
	for name, value := range map[string]any{"text": "boom", "error": errors.New("boom"), "http error": http.ErrBodyNotAllowed} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.queue.answer = func(context.Context, webhook.Event) (webhook.Receipt, error) { panic(value) }
			w := r.send(toDefault(payment))
			got, err := parse(w.Body.Bytes())
			if w.Code != 503 || got.Status != "error" || err != nil || w.Header().Get("Retry-After") == "" {
				t.Errorf("answer = %d %+v, %v, want a 503", w.Code, got, err)
			}
			lines := r.logged(t)
			if len(lines) != 2 || lines[0]["msg"] != "panic in ingest" || lines[0]["level"] != "ERROR" || !strings.Contains(fmt.Sprint(lines[0]["stack"]), "TestPanic") {
				t.Errorf("log = %v", lines)
			}
			if len(r.reports) != 1 || r.reports[0].Reason != "failed" {
				t.Errorf("reported %+v", r.reports)
			}
			r.queue.answer = nil
			if w := r.send(toDefault(payment)); w.Code != 200 {
				t.Errorf("the next request was answered %d", w.Code)
			}
		})
	}
}

// A good delivery is never told that it is bad, whatever the store's error
// looks like.
func TestErrorOfTheQueueIsOurs(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&webhook.InvalidError{Field: "id", Reason: "is odd"}, &http.MaxBytesError{Limit: 1}, webhook.ErrUnverified,
		os.ErrDeadlineExceeded, io.ErrUnexpectedEOF,
	} {
		r := newRig(t)
		r.queue.answer = answers(webhook.Receipt{}, err)
		if w := r.send(toDefault(payment)); w.Code != 503 || w.Header().Get("Retry-After") == "" {
			t.Errorf("%T: answer = %d %s, want a 503", err, w.Code, w.Body)
		}
	}
}
