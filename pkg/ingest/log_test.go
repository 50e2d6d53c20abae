package ingest_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func hashOf(body string) string {
	sum := sha256.Sum256([]byte(body))
	return hex.EncodeToString(sum[:])
}

func TestLog(t *testing.T) {
	t.Parallel()
	bad := strings.Replace(payment, "1099", "-1", 1)
	toSmall := toDefault(payment)
	toSmall.target = "/webhooks/small"
	tests := []struct {
		name    string
		d       delivery
		receipt webhook.Receipt
		err     error
		want    []map[string]any
	}{
		{"accepted", toDefault(payment), webhook.Receipt{Outcome: webhook.Accepted}, nil, []map[string]any{
			{"level": "DEBUG", "msg": "accepted", "source": "default", "event_id": "evt_1"}}},
		{"duplicate", toDefault(payment), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, nil, []map[string]any{
			{"level": "INFO", "msg": "duplicate", "source": "default", "event_id": "evt_1", "layer": "taskid"}}},
		{"requeued", toDefault(payment), webhook.Receipt{Outcome: webhook.Requeued}, nil, []map[string]any{
			{"level": "INFO", "msg": "requeued: the event was dead", "source": "default", "event_id": "evt_1"}}},
		{"other body", toDefault(payment), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", OtherBody: true}, nil, []map[string]any{
			{"level": "INFO", "msg": "duplicate", "source": "default", "event_id": "evt_1", "layer": "taskid"},
			{"level": "WARN", "msg": "the event's id came with another body: the first stays", "source": "default", "event_id": "evt_1", "body_sha256": hashOf(payment)}}},
		{"invalid", toDefault(bad), webhook.Receipt{}, nil, []map[string]any{
			{"level": "INFO", "msg": "delivery refused", "source": "default", "code": 400.0, "reason": "invalid", "err": "amount: is negative", "body_sha256": hashOf(bad)}}},
		{"unverified", delivery{"POST", "/webhooks/github", toDefault("").header, payment}, webhook.Receipt{}, nil, []map[string]any{
			{"level": "INFO", "msg": "delivery refused", "source": "github", "code": 401.0, "reason": "missing_header",
				"err": "delivery not verified: missing_header (X-Hub-Signature-256)", "body_sha256": hashOf(payment)}}},
		{"too large, so it has no hash", toSmall, webhook.Receipt{}, nil, []map[string]any{
			{"level": "INFO", "msg": "delivery refused", "source": "small", "code": 413.0, "reason": "too_large", "err": "http: request body too large"}}},
		{"not held", toDefault(payment), webhook.Receipt{}, fmt.Errorf("%w: boom", webhook.ErrNotHeld), []map[string]any{
			{"level": "ERROR", "msg": "delivery refused", "source": "default", "code": 503.0, "reason": "not_held", "err": "event not held: boom", "body_sha256": hashOf(payment)}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.queue.answer = answers(tt.receipt, tt.err)
			r.send(tt.d)
			if got := r.logged(t); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("log = %v, want %v", got, tt.want)
			}
		})
	}
}

func TestReport(t *testing.T) {
	t.Parallel()
	wrong := toGitHub(t, `{}`)
	wrong.body += " "
	to := func(target string) delivery {
		d := toDefault(payment)
		d.target = target
		return d
	}
	get, text := toDefault(payment), toDefault(payment)
	get.method = "GET"
	text.header.Set("Content-Type", "text/plain")
	const took = time.Second // what readings of the clock have between them
	tests := []struct {
		name    string
		d       delivery
		receipt webhook.Receipt
		err     error
		want    ingest.Report
	}{
		{"accepted", toDefault(payment), webhook.Receipt{Outcome: webhook.Accepted}, nil, ingest.Report{Source: "default", Outcome: "accepted", Took: 2 * took}},
		{"duplicate", toDefault(payment), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, nil, ingest.Report{Source: "default", Outcome: "duplicate", Layer: "taskid", Took: 2 * took}},
		{"other body", toDefault(payment), webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", OtherBody: true}, nil,
			ingest.Report{Source: "default", Outcome: "duplicate", Layer: "taskid", OtherBody: true, Took: 2 * took}},
		{"requeued", to("/webhooks/says-204"), webhook.Receipt{Outcome: webhook.Requeued}, nil, ingest.Report{Source: "says-204", Outcome: "requeued", Took: 2 * took}},
		{"not held", toDefault(payment), webhook.Receipt{}, webhook.ErrNotHeld, ingest.Report{Source: "default", Outcome: "error", Reason: "not_held", Took: 2 * took}},
		{"invalid", toDefault(`{}`), webhook.Receipt{}, nil, ingest.Report{Source: "default", Outcome: "error", Reason: "invalid", Took: took}},
		{"no signature", to("/webhooks/github"), webhook.Receipt{}, nil, ingest.Report{Source: "github", Outcome: "error", Reason: "missing_header", Took: took}},
		{"wrong signature", wrong, webhook.Receipt{}, nil, ingest.Report{Source: "github", Outcome: "error", Reason: "body_altered", Took: took}},
		{"too old", toStripe(t, `{}`, noon.Add(-time.Hour)), webhook.Receipt{}, nil, ingest.Report{Source: "stripe", Outcome: "error", Reason: "too_old", Took: took}},
		{"too large", to("/webhooks/small"), webhook.Receipt{}, nil, ingest.Report{Source: "small", Outcome: "error", Reason: "too_large"}},
		{"method", get, webhook.Receipt{}, nil, ingest.Report{Source: "default", Outcome: "error", Reason: "method"}},
		{"media type", text, webhook.Receipt{}, nil, ingest.Report{Source: "default", Outcome: "error", Reason: "media_type"}},
		// What anybody can invent must not become the label of a metric.
		{"unknown source", to("/webhooks/nobody"), webhook.Receipt{}, nil, ingest.Report{Outcome: "error", Reason: "unknown_source"}},
		{"unknown path", to("/x"), webhook.Receipt{}, nil, ingest.Report{Outcome: "error", Reason: "unknown_source"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			clock := noon
			r := newRig(t, func(o *ingest.Options) {
				o.Now = func() time.Time {
					clock = clock.Add(took)
					return clock
				}
			})
			r.queue.answer = answers(tt.receipt, tt.err)
			r.send(tt.d)
			if len(r.reports) != 1 || r.reports[0] != tt.want {
				t.Errorf("reported %+v, want %+v", r.reports, tt.want)
			}
		})
	}
}

// Neither a secret nor a signature nor the query of a URL is ever seen again.
func TestNothingLeaks(t *testing.T) {
	t.Parallel()
	good := toGitHub(t, `{}`)
	mac := strings.TrimPrefix(good.header.Get("X-Hub-Signature-256"), "sha256=")
	spoilt := func(spoil func(d *delivery)) delivery {
		d := good
		d.header = maps.Clone(good.header)
		spoil(&d)
		return d
	}
	deliveries := []delivery{
		good,
		toStripe(t, `{`, noon),
		toStripe(t, `{"id":"evt_1","type":"x"}`, noon.Add(-time.Hour)),
		spoilt(func(d *delivery) { d.target += "?token=" + canary }),
		spoilt(func(d *delivery) { d.target = "/" + canary + "?token=" + canary }),
		spoilt(func(d *delivery) { d.target = "/webhooks/" + canary }),
		spoilt(func(d *delivery) { d.method = "GET" }),
		spoilt(func(d *delivery) { d.body = "[]" }),
		spoilt(func(d *delivery) { d.header.Del("X-GitHub-Delivery") }),
		spoilt(func(d *delivery) { d.header.Set("Content-Type", canary) }),
		spoilt(func(d *delivery) { d.header.Set("Content-Encoding", canary) }),
		spoilt(func(d *delivery) { d.header.Set("X-Hub-Signature-256", canary) }),
		spoilt(func(d *delivery) { d.header.Add("X-Hub-Signature-256", canary) }),
		spoilt(func(d *delivery) { d.header.Set("Authorization", "Bearer "+canary) }),
	}
	queues := []func(context.Context, webhook.Event) (webhook.Receipt, error){
		nil,
		answers(webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid", OtherBody: true}, nil),
		answers(webhook.Receipt{Outcome: webhook.Requeued}, nil),
		answers(webhook.Receipt{}, webhook.ErrNotHeld),
		func(context.Context, webhook.Event) (webhook.Receipt, error) { panic("boom") },
	}
	r := newRig(t)
	for _, q := range queues {
		r.queue.answer = q
		for _, d := range deliveries {
			w := r.send(d)
			if text := fmt.Sprint(w.Header(), w.Body); strings.Contains(text, canary) || strings.Contains(text, mac) {
				t.Errorf("%s answered %s", d.target, text)
			}
		}
	}
	if got := r.log.String(); strings.Contains(got, canary) || strings.Contains(got, mac) || !strings.Contains(got, "delivery refused") {
		t.Errorf("log = %s", got)
	}
	for _, ev := range r.queue.got() {
		if text := fmt.Sprintf("%q", ev.Headers); strings.Contains(text, canary) || strings.Contains(text, mac) {
			t.Errorf("the event keeps %s", text)
		}
	}
}

// 71: what a sender writes cannot end a line of the log, or paint it.
func TestLogQuotes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for _, id := range []string{"\u2028", "\u202e\u2066", "\u200b", `\"}`, "🪝"} {
		r.send(toDefault(strings.Replace(payment, "evt_1", id, 1)))
	}
	evil := toGitHub(t, `{}`)
	evil.header.Set("X-GitHub-Delivery", "a\r\n\x1b[31mERROR")
	r.send(evil)
	if got := r.log.String(); strings.Count(got, "\n") != 6 || strings.ContainsAny(got, "\r\x1b") {
		t.Errorf("log = %q", got)
	}
	r.logged(t)
}
