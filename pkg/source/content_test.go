package source_test

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestKind(t *testing.T) {
	t.Parallel()
	of := func(kinds ...source.Kind) source.Source {
		s := source.New("x")
		s.Content = kinds
		return s
	}
	sns, open := of(source.JSON), of(source.JSON)
	sns.MediaTypes, open.MediaTypes = []string{"text/plain"}, []string{""}
	both := of(source.JSON, source.Form)
	tests := []struct {
		name   string
		source source.Source
		types  []string
		kind   source.Kind
		err    string
	}{
		{"JSON", of(), []string{"application/json"}, source.JSON, ""},
		{"JSON, said", of(source.JSON), []string{"application/json"}, source.JSON, ""},
		{"JSON with a charset", of(), []string{"application/json; charset=utf-8"}, source.JSON, ""},
		{"JSON with a suffix", of(), []string{"application/cloudevents+json"}, source.JSON, ""},
		{"20 form to JSON", of(), []string{"application/x-www-form-urlencoded"}, "", "Content-Type must be application/json"},
		{"20 JSON to form", of(source.Form), []string{"application/json"}, "", "Content-Type must be application/x-www-form-urlencoded"},
		{"20 text to JSON", of(), []string{"text/plain"}, "", "Content-Type must be application/json"},
		{"20 text to both", both, []string{"text/plain"}, "", "Content-Type must be application/json or application/x-www-form-urlencoded"},
		{"form", both, []string{"application/x-www-form-urlencoded"}, source.Form, ""},
		{"form in Latin-1", both, []string{"application/x-www-form-urlencoded; charset=windows-1252"}, source.Form, ""},
		{"JSON to both", both, []string{"application/json"}, source.JSON, ""},
		{"21 UTF-16", both, []string{"application/json; charset=utf-16"}, "", "charset must be utf-8"},
		{"19 none", of(), nil, "", "Content-Type must be given once"},
		{"19 none, allowed", open, nil, source.JSON, ""},
		{"19 none, to opaque", of(source.Opaque), nil, source.Opaque, ""},
		{"21 twice", of(source.Opaque), []string{"text/xml", "text/xml"}, "", "Content-Type must be given once"},
		{"text/plain as JSON", sns, []string{"text/plain; charset=UTF-8"}, source.JSON, ""},
		{"JSON beside text/plain", sns, []string{"application/json"}, source.JSON, ""},
		{"20 XML beside text/plain", sns, []string{"text/xml"}, "", "Content-Type must be application/json or text/plain"},
		{"21 text/plain in UTF-16", sns, []string{"text/plain; charset=utf-16"}, "", "charset must be utf-8"},
		{"XML to opaque", of(source.Opaque), []string{"text/xml; charset=utf-16"}, source.Opaque, ""},
		{"JSON to opaque", of(source.Opaque), []string{"application/json"}, source.Opaque, ""},
		{"JSON to JSON and opaque", of(source.JSON, source.Opaque), []string{"application/json"}, source.JSON, ""},
		{"no media type to opaque", of(source.Opaque), []string{"???"}, source.Opaque, ""},
		{"25 multipart to both", both, []string{"multipart/form-data; boundary=x"}, "", "Content-Type must be application/json or application/x-www-form-urlencoded"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			kind, err := tt.source.Kind(http.Header{"Content-Type": tt.types})
			if kind != tt.kind || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
				t.Errorf("Kind(%q) = %q, %v, want %q, %s", tt.types, kind, err, tt.kind, tt.err)
			}
			if _, ok := errors.AsType[*source.MediaError](err); err != nil && !ok {
				t.Errorf("%T is not a MediaError", err)
			}
		})
	}
}

func TestForm(t *testing.T) {
	t.Parallel()
	sms := source.New("sms")
	sms.Content = []source.Kind{source.Form, source.JSON}
	sms.ID = []source.Locator{{Form: "MessageSid"}, {Form: "Status"}}
	sms.Type = []source.Locator{{Form: "Event Type", Optional: true}}
	hub := source.New("hub")
	hub.Content, hub.PayloadField = []source.Kind{source.JSON, source.Form}, "payload"
	hub.ID, hub.Type = []source.Locator{{Header: "X-Id"}}, []source.Locator{at("/type")}
	mail := source.New("mail")
	mail.Content = []source.Kind{source.Form}
	mail.ID, mail.Type = []source.Locator{at("/_id"), number(at("/ts"))}, []source.Locator{at("/event")}
	mail.Items = &source.Locator{Form: "events"}
	json := url.QueryEscape(`{"type":"Größe","id":"x"}`)
	tests := []struct {
		name   string
		source source.Source
		body   string
		want   string // "id type body" of the items
		err    string
	}{
		{"fields", sms, "MessageSid=SM1&Status=sent&Event+Type=a%2Bb", "SM1:sent a+b *", ""},
		{"names with escapes", sms, "Message%53id=SM1&%53tatus=sent", "SM1:sent unknown *", ""},
		{"in another order, among others", sms, "x&&=&Status=sent&y=%zz&MessageSid=SM1&%zz=1", "SM1:sent unknown *", ""},
		{"56 missing", sms, "Status=sent", "", "MessageSid: is missing"},
		{"56 empty", sms, "MessageSid=&Status=sent", "", "MessageSid: is empty"},
		{"56 without =", sms, "MessageSid&Status=sent", "", "MessageSid: is empty"},
		{"56 blank", sms, "MessageSid=+&Status=sent", "", "MessageSid: is blank"},
		{"54 twice", sms, "MessageSid=a&MessageSid=a&Status=sent", "", "MessageSid: is there more than once"},
		{"54 twice, once escaped", sms, "MessageSid=a&Message%53id=b&Status=sent", "", "MessageSid: is there more than once"},
		{"55 in another case", sms, "messagesid=a&Status=sent", "", "MessageSid: is missing"},
		{"59 control character", sms, "MessageSid=a%0A&Status=sent", "", "MessageSid: has a control character"},
		{"59 NUL", sms, "MessageSid=a%00&Status=sent", "", "MessageSid: has a control character"},
		{"64 A56 Latin-1 in the id", sms, "MessageSid=a%E9&Status=sent", "", "MessageSid: is not UTF-8"},
		{"64 A56 Latin-1 elsewhere", sms, "MessageSid=a&Status=sent&Body=caf%E9\xe9", "a:sent unknown *", ""},
		{"broken escape", sms, "MessageSid=a%2&Status=sent", "", "MessageSid: has a % without two hexadecimal digits after it"},
		{"58 256 bytes", sms, "MessageSid=" + strings.Repeat("x", 256) + "&Status=sent", "", "MessageSid: is longer than 255 bytes"},
		{"49 nothing", sms, "", "", "MessageSid: is missing"},

		{"A66 JSON in a field", hub, "payload=" + json, "h Größe *", ""},
		{"A66 JSON in a field, twice", hub, "payload=" + json + "&payload=" + json, "", "payload: is there more than once"},
		{"A66 no JSON in the field", hub, "payload=%7B", "", "broken JSON at byte 1: unexpected EOF"},
		{"A66 an array in the field", hub, "payload=[]", "", "is not a JSON object"},
		{"A66 the field empty", hub, "payload=", "", "empty body"},
		{"A66 without the field", hub, "other=1", "", "type: is missing"},

		{"A65 items in a field", mail, "events=" + url.QueryEscape(`[{"_id":"a","ts":1,"event":"open"}, {"_id":"a","ts":2,"event":"open"}]`),
			`a:1 open {"_id":"a","ts":1,"event":"open"}; a:2 open {"_id":"a","ts":2,"event":"open"}`, ""},
		{"75 no items in the field", mail, "events=%5B%5D", "", ""},
		{"A65 the field missing", mail, "event=1", "", "events: is missing"},
		{"A65 no items", mail, "events=1", "", "events: is a number, want an array"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "X-Id": {"h"}}
			items, err := tt.source.Read(h, []byte(tt.body))
			got := show(items)
			if tt.err != "" {
				got = ""
			}
			if want := strings.ReplaceAll(tt.want, "*", tt.body); got != want || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
				t.Errorf("Read(%s) = %s, %v, want %s, %s", tt.body, got, err, want, tt.err)
			}
		})
	}
}

func TestOpaque(t *testing.T) {
	t.Parallel()
	s := source.New("x")
	s.Content = []source.Kind{source.Opaque}
	s.ID, s.Type = []source.Locator{{Header: "X-Id"}}, []source.Locator{{Header: "X-Type"}}
	for _, body := range []string{"", "<a/>", "\xff\x00", `{"a":1,"a":2}`} {
		h := header("Content-Type", "text/xml", "X-Id", "1", "X-Type", "t")
		if id, typ, err := readOne(s, h, []byte(body)); id != "1" || typ != "t" || err != nil {
			t.Errorf("Read(%q) = %q, %q, %v", body, id, typ, err)
		}
	}
	s.ID = []source.Locator{at("/a")}
	if _, _, err := readOne(s, header("Content-Type", "text/xml", "X-Type", "t"), []byte(`{"a":"1"}`)); err == nil || err.Error() != "a: is missing" {
		t.Errorf("Read looks into bytes: %v", err)
	}
}

// No form makes Read panic, and what it finds net/url finds too.
func FuzzForm(f *testing.F) {
	for _, body := range []string{"", "id=1", "id=1&id=2", "%69d=%31", "id=%", "id=a+b&payload={}", "&&=&id", "id=\xff", "id=%ff", "x;id=1", "items=[{}]"} {
		f.Add([]byte(body))
	}
	s := source.New("x")
	s.Content = []source.Kind{source.Form}
	s.ID, s.Type, s.PayloadField = []source.Locator{{Form: "id"}}, []source.Locator{{Text: "t"}, at("/a")}, "payload"
	f.Fuzz(func(t *testing.T, body []byte) {
		id, _, err := readOne(s, http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}, body)
		if err != nil {
			if _, ok := errors.AsType[*webhook.InvalidError](err); !ok {
				t.Fatalf("Read(%q) = %T %v", body, err, err)
			}
			return
		}
		var want []string
		for pair := range strings.SplitSeq(string(body), "&") { // net/url stops at the first fault
			if v, err := url.ParseQuery(strings.ReplaceAll(pair, ";", "%3B")); err == nil {
				want = append(want, v["id"]...)
			}
		}
		if len(want) != 1 || want[0] != id {
			t.Errorf("Read(%q) has the id %q, net/url %q", body, id, want)
		}
	})
}
