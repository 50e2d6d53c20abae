package ingest_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/signature"
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
