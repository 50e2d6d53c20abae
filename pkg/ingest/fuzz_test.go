package ingest_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// No request is answered with anything but JSON with the three fields, none
// with a 5xx while the queue works, and a 2xx means that the queue has the bytes.
// The signature header "sign" stands for right signatures of every kind.
func FuzzHandler(f *testing.F) {
	for _, path := range []string{"/webhooks", "/webhooks/github", "/webhooks/stripe", "/webhooks/standard-webhooks", "/webhooks/small", "/webhooks/says-202", "//webhooks/", "/webhooks/%2e%2e", "*", "http://a"} {
		f.Add(path, "application/json", "sign", []byte(`{"id":"evt_1","type":"x"}`))
		f.Add(path, "application/json; charset=utf-8", "t=1,v1=00", []byte(payment))
	}
	f.Add("/webhooks", `a/b+json; charset="utf-8`, "", []byte("\uFEFF{}"))
	f.Add("/webhooks/github", "application/json", "sha256=", []byte(`{"action":1}`))
	f.Add("/webhooks/stripe", "application/json", "sign", []byte(`{"id":"\ud800","ID":1,"type":[[[]]]}`))
	signers := []*signature.Verifier{
		verifier(f, signature.GitHub(), secret),
		verifier(f, signature.Stripe(), secret),
		verifier(f, signature.StandardWebhooks("webhook"), whsec),
	}
	f.Fuzz(func(t *testing.T, path, contentType, value string, body []byte) {
		target, err := url.ParseRequestURI(path)
		if err != nil {
			t.Skip("net/http answers")
		}
		h := http.Header{"Content-Type": {contentType}, "X-Github-Delivery": {"d-1"}, "X-Github-Event": {"x"}}
		for _, v := range signers {
			for name, values := range signed(t, v, "msg_1", string(body), noon) {
				h[name] = values
				if value != "sign" && strings.Contains(name, "Signature") {
					h[name] = []string{value}
				}
			}
		}
		r, w, sent := newRig(t), httptest.NewRecorder(), bytes.Clone(body)
		req := httptest.NewRequest("POST", "/", bytes.NewReader(body))
		req.URL, req.Header = target, h
		r.ServeHTTP(w, req)
		a, err := parse(w.Body.Bytes())
		says204 := w.Code == http.StatusNoContent && strings.HasSuffix(target.Path, "/says-204")
		if w.Code >= 500 || w.Code >= 300 && w.Code < 400 || err != nil && !says204 {
			t.Fatalf("POST %q was answered %d %q, %v", path, w.Code, w.Body, err)
		}
		events := r.queue.got()
		if held := len(events) == 1; held != (w.Code < 300) || held && !says204 && (events[0].ID != a.EventID || a.Status != "accepted") {
			t.Errorf("POST %q was answered %d %+v, and the queue got %d events", path, w.Code, a, len(events))
		}
		if len(events) > 0 && !bytes.Equal(events[0].Body, sent) {
			t.Errorf("the queue got %q, of %q", events[0].Body, sent)
		}
	})
}

// The same for sources that take batches, forms, bytes and what is compressed,
// and that answer handshakes: whatever comes, all usable events of a 2xx are on
// the queue, each once, and with its own part of the bytes.
func FuzzContent(f *testing.F) {
	for _, body := range []string{
		`[{"id":"a","type":"t"},{"id":"b","type":"t"}]`, `[{"id":"a","type":"t"},{"id":"a","type":"u"},7,{}]`, `{"events":[{"id":"a","type":"t"}]}`, `{"events":[]}`,
		`events=%5B%7B%22id%22%3A%22a%22%2C%22type%22%3A%22t%22%7D%5D&id=1`, "id=1&type=t&id=2", "<a/>", "\x1f\x8b", zip(f, `[{"id":"a","type":"t"}]`),
		`{"type":"url_verification","challenge":"a"}`, `{"event":"endpoint.url_validation","payload":{"plainToken":"a"}}`, `{"type":1}`,
	} {
		for i := range 12 {
			f.Add(i, "application/json", "", []byte(body))
			f.Add(i, "application/x-www-form-urlencoded", "gzip", []byte(body))
		}
	}
	f.Fuzz(func(t *testing.T, i int, contentType, encoding string, body []byte) {
		src := batches([]string{"", "/events"}[i&1])
		src.Content, src.Gzip = []source.Kind{source.JSON, source.Form, source.Opaque}, source.GzipPlain
		src.MaxBody = 64 << 10
		src.Handshake = []source.Handshake{source.HandshakeNone, source.HandshakeSlack, source.HandshakeZoom, source.HandshakeDiscord, source.HandshakeSNS, source.HandshakeXero}[uint(i)>>1%6]
		switch uint(i) % 3 {
		case 0:
			src.Items.Form = "events"
		case 1:
			src.Items, src.ID, src.Type = nil, []source.Locator{{Form: "id", Or: []source.Locator{{Content: true}}}}, []source.Locator{{Text: "t"}}
		}
		r := newRig(t, only(src))
		d := toBatch(string(body))
		d.header.Set("Content-Type", contentType)
		d.header.Set("Content-Encoding", encoding)
		w := r.send(d)
		if w.Code >= 500 || w.Code >= 300 && w.Code < 400 {
			t.Fatalf("%q was answered %d %q", body, w.Code, w.Body)
		}
		events := r.queue.got()
		if len(events) > 0 && w.Code != 200 {
			t.Errorf("%q was answered %d, and the queue got %d events", body, w.Code, len(events))
		}
		accepted := 0
		for _, report := range r.reports {
			if report.Outcome == webhook.Accepted {
				accepted++
			}
		}
		if accepted != len(events) || len(r.reports) == 0 {
			t.Errorf("%q: the queue got %d events, and %d are reported of %d", body, len(events), accepted, len(r.reports))
		}
		for _, ev := range events {
			if ev.ID == "" || ev.Type == "" || ev.SHA256 != sum(ev.Body) || len(ev.Body) > 64<<10 {
				t.Errorf("%q: the queue got %q %q with %q", body, ev.ID, ev.Type, ev.Body)
			}
		}
	})
}
