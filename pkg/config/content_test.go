package config_test

import (
	"reflect"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/source"
)

func pointers(texts ...string) []payload.Pointer {
	var all []payload.Pointer
	for _, text := range texts {
		all = append(all, source.Pointer(text))
	}
	return all
}

// Each line is added to a source that has nothing but id and type.
func TestReading(t *testing.T) {
	a, b := source.Locator{JSON: source.Pointer("/a")}, source.Locator{Header: "X-B"}
	yes, no := true, false
	tests := []struct {
		line string
		want func(s *source.Source)
	}{
		{"id: [{json: /a}, {header: X-B}]", func(s *source.Source) { s.ID = []source.Locator{a, b} }},
		{"id: {form: MessageSid}", func(s *source.Source) { s.ID = []source.Locator{{Form: "MessageSid"}} }},
		{"id: {json: /a, number: true}", func(s *source.Source) { s.ID = []source.Locator{{JSON: a.JSON, Number: true}} }},
		{"id: [{json: /a, optional: true, envelope: true}]", func(s *source.Source) { s.ID = []source.Locator{{JSON: a.JSON, Optional: true, Envelope: true}} }},
		{"id: {header: X-B, or: [{json: /a}]}", func(s *source.Source) { s.ID = []source.Locator{{Header: "X-B", Or: []source.Locator{a}}} }},
		{"id: {header: X-B, or: [{json: /a}, content]}", func(s *source.Source) {
			s.ID = []source.Locator{{Header: "X-B", Or: []source.Locator{a, {Content: true}}}}
		}},
		{"id: content", func(s *source.Source) { s.ID = []source.Locator{{Content: true}} }},
		{"id: delivery", func(s *source.Source) { s.ID = []source.Locator{{Delivery: true}} }},
		{"type: [{header: X-B}, {json: /a}]", func(s *source.Source) { s.Type = []source.Locator{b, a} }},
		{"type: {text: payment}", func(s *source.Source) { s.Type = []source.Locator{{Text: "payment"}} }},
		{"items: {json: /events}", func(s *source.Source) { s.Items = &source.Locator{JSON: source.Pointer("/events")} }},
		{`items: {json: ""}`, func(s *source.Source) { s.Items = &source.Locator{} }},
		{"items: {form: mandrill_events}", func(s *source.Source) { s.Items = &source.Locator{Form: "mandrill_events"} }},
		{"items: {json: /events, optional: true}", func(s *source.Source) { s.Items = &source.Locator{JSON: source.Pointer("/events"), Optional: true} }},
		{"content: [json, form]", func(s *source.Source) { s.Content = []source.Kind{source.JSON, source.Form} }},
		{"content: [opaque]", func(s *source.Source) { s.Content = []source.Kind{source.Opaque} }},
		{"content_types: [text/plain, missing]", func(s *source.Source) { s.MediaTypes = []string{"text/plain", ""} }},
		{"content: [json, form]\n    payload_field: payload", func(s *source.Source) {
			s.Content, s.PayloadField = []source.Kind{source.JSON, source.Form}, "payload"
		}},
		{"gzip: plain", func(s *source.Source) { s.Gzip = source.GzipPlain }},
		{"gzip: compressed", func(s *source.Source) { s.Gzip = source.GzipCompressed }},
		{`ignore: [ping, "check_run.*"]`, func(s *source.Source) { s.Ignore = []string{"ping", "check_run.*"} }},
		{"livemode: true", func(s *source.Source) { s.Live, s.Livemode = &yes, source.Locator{JSON: source.Pointer("/livemode")} }},
		{"livemode: false", func(s *source.Source) { s.Live, s.Livemode = &no, source.Locator{JSON: source.Pointer("/livemode")} }},
		{"ignore_fields: [/pending_webhooks, /a/b]", func(s *source.Source) { s.IgnoreFields = pointers("/pending_webhooks", "/a/b") }},
		{"handshake: probe", func(s *source.Source) { s.Handshake = source.HandshakeProbe }},
		{"handshake: meta\n    verify_token: \"${SHOP_SECRET}\"", func(s *source.Source) {
			s.Handshake, s.VerifyToken = source.HandshakeMeta, canary
		}},
	}
	for _, tt := range tests {
		t.Run(tt.line, func(t *testing.T) {
			lines := []string{"verify: none", "id: {json: /id}", "type: {header: X-Type}"}
			switch {
			case strings.HasPrefix(tt.line, "id:"):
				lines[1] = tt.line
			case strings.HasPrefix(tt.line, "type:"):
				lines[2] = tt.line
			default:
				lines = append(lines, tt.line)
			}
			want := source.New("a")
			want.ID, want.Type = []source.Locator{{JSON: source.Pointer("/id")}}, []source.Locator{{Header: "X-Type"}}
			tt.want(&want)
			if got, err := parse(one("a", lines...)); err != nil || !reflect.DeepEqual(got, []source.Source{want}) {
				t.Errorf("got %+v, %v, want %+v", got, err, want)
			}
		})
	}
}

func TestReadingRefused(t *testing.T) {
	for line, want := range map[string]string{
		"id: []":                              "id: must not be empty",
		"id: [{json: /a}, {jsn: /b}]":         `id: entry 2: unknown key "jsn"`,
		"id: {text: x}":                       `id: unknown key "text"`,
		"id: contents":                        "id: want {json: /pointer}",
		"id: {json: /a, number: 1}":           "id: number: want true or false",
		"id: {json: /a, or: []}":              "id: or: must not be empty",
		"items: {}":                           `items: want {json: /pointer}, {json: ""}`,
		"items: /events":                      `items: want {json: /pointer}, {json: ""}`,
		"items: {json: events}":               "items: json: is not a JSON pointer",
		"content: []":                         "content: must not be empty",
		"content: json":                       "content: want a list of json, form and opaque",
		"content: [xml]":                      "content: entry 1: want one of json, form, opaque",
		"content_types: [text]":               "content_types: entry 1: is not a media type",
		"content_types: [text/plain; q=1]":    "content_types: entry 1: is not a media type",
		"payload_field: payload":              "payload_field: is for forms",
		"gzip: true":                          "gzip: want one of plain, compressed",
		"ignore: ping":                        "ignore: want a list of types",
		`ignore: [""]`:                        "ignore: entry 1: must not be empty",
		"livemode: live":                      "livemode: want true or false",
		"ignore_fields: [pending_webhooks]":   "ignore_fields: entry 1: is not a JSON pointer",
		"handshake: okta":                     "handshake: want one of probe, slack,",
		"verify_token: ${NOPE}":               "verify_token: the environment variable NOPE is not set",
		"verify_token: \"\"":                  "verify_token: must not be empty",
		"livemode: true\n    livemode: false": `key "livemode": is there already`,
	} {
		lines := []string{"verify: none", "type: {header: X-Type}"}
		if !strings.HasPrefix(line, "id:") {
			lines = append(lines, "id: {json: /id}")
		}
		_, err := parse(one("a", append(lines, line)...))
		if err == nil || !strings.Contains(err.Error(), "source a: "+want) || strings.Contains(err.Error(), canary) {
			t.Errorf("%s: got %v, want %s", line, err, want)
		}
	}
}

// A source of Zoom can prove that it knows its secrets.
func TestChallengers(t *testing.T) {
	all, err := parse(one("a", "provider: zoom", `secrets: ["${SHOP_SECRET}", other]`))
	if err != nil || all[0].Handshake != source.HandshakeZoom || len(all[0].Challengers) != 2 {
		t.Errorf("got %+v, %v, want a challenger for each secret", all, err)
	}
}
