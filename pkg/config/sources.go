package config

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
)

// ParseSources reads a sources file, which is strict YAML: a key that is not
// known, an empty secret or a bad value is an error that names the line and the
// fix, and all of them are in the error, in the order of the lines. file is what
// it calls the file.
//
// handlers are the names that a rule's handler may have; without them it may
// have any, as for ingest, which calls none.
//
// In every text of the file ${NAME} stands for a variable, which must be set,
// and ${NAME:-text} for one that may be missing or empty, and is then the text.
func ParseSources(file string, data []byte, getenv func(string) (string, bool), handlers ...string) ([]source.Source, error) {
	sources, _, err := parseSources(file, data, getenv, handlers)
	return sources, err
}

// parseSources returns what is not wrong, and should be known, too.
func parseSources(file string, data []byte, getenv func(string) (string, bool), handlers []string) ([]source.Source, []string, error) {
	d := &document{file: file, getenv: getenv, handlers: handlers}
	root, ok := d.parse(data)
	if !ok {
		return nil, nil, d.err()
	}
	sources := root.sources()
	if err := d.err(); err != nil {
		return nil, nil, err
	}
	return sources, d.warnings, nil
}

func (v value) sources() []source.Source {
	const none = "no sources: want sources: with the name of one under it"
	if !v.given() {
		v.wrong(none)
		return nil
	}
	top, ok := v.record("a mapping with the key sources", "sources")
	if !ok {
		return nil
	}
	if !top.key("sources").given() {
		v.wrong(none)
		return nil
	}
	named, ok := top.key("sources").mapping("a mapping of the sources by their names")
	if ok && len(named.keys) == 0 {
		named.wrong(none)
	}
	var all []source.Source
	for _, name := range named.keys {
		one := named.fields[name]
		if source.ValidName(name) {
			one.name = "source " + name + ": "
		} else {
			one.name = "source: "
			one.wrong("want a name of a-z, 0-9, _ and -, at most 64 bytes: [a-z0-9_-]{1,64}")
		}
		all = append(all, one.source(name))
	}
	return all
}

var sourceKeys = []string{
	"provider", "verify", "tolerance", "webhook_id", "secrets", "id", "type", "headers", "ack_status", "max_body",
	"max_retry", "timeout", "concurrency", "retention", "keep_payload", "keep_details", "handlers",
	"items", "content", "content_types", "payload_field", "gzip", "ignore", "livemode", "ignore_fields", "verify_token",
	"handshake",
	"allow_ips", "public_url", "rate_limit", "replay_window",
}

func (v value) source(name string) source.Source {
	m, ok := v.record("a mapping", sourceKeys...)
	if !ok {
		return source.New(name)
	}
	how := m.origin()
	s := how.preset.Source(name)
	m.identity(&s, how)
	m.content(&s)
	m.filter(&s)
	s.Verifier = m.verifier(name, how)
	m.challengers(&s, how)
	m.limits(&s)
	m.edges(&s)
	if h := m.key("headers"); h.given() {
		s.KeepHeaders = h.headers(secretHeaders(how.preset.Scheme))
	}
	if h := m.key("handlers"); h.given() {
		s.Handlers = h.rules()
	}
	return s
}

// pointer reads a JSON pointer to something inside of the document.
func (v value) pointer(to *payload.Pointer) bool {
	var s string
	return v.text(&s) && v.parsePointer(s, to)
}

// anyPointer reads a JSON pointer, which may be to the whole document.
func (v value) anyPointer(to *payload.Pointer) bool {
	var s string
	return v.anyText(&s) && v.parsePointer(s, to)
}

func (v value) parsePointer(s string, to *payload.Pointer) bool {
	p, err := payload.ParsePointer(s)
	if err != nil {
		v.wrong("is not a JSON pointer: want such as /data/id, with ~1 for a / in a key and ~0 for a ~")
		return false
	}
	*to = p
	return true
}

// maxBody is the largest that max_body can be.
const maxBody = 64 << 20

func (m mapping) limits(s *source.Source) {
	status := strconv.Itoa(s.AckStatus)
	m.key("ack_status").choice(&status, "200", "202", "204")
	s.AckStatus, _ = strconv.Atoi(status)
	m.key("max_body").size(&s.MaxBody, maxBody)
	m.key("max_retry").number(&s.MaxRetry, 0, 1000)
	m.key("concurrency").number(&s.Concurrency, 1, 1000)
	m.key("timeout").duration(&s.Timeout, time.Second, 15*time.Minute, 1, "a duration from 1s to 15m, such as 10s")
	m.key("retention").duration(&s.Retention, 0, 24*time.Hour, time.Second, "whole seconds from 0 to 24h, such as 10m")
	const years = 100 * 365 * 24 * time.Hour
	m.key("keep_payload").duration(&s.KeepPayload, time.Hour, years, 1, "a duration of 1h or more, such as 720h")
	m.key("keep_details").duration(&s.KeepDetails, time.Hour, years, 1, "a duration of 1h or more, such as 2160h")
}

// headers reads which headers to keep. Those that are secret would be shown to
// all who may see events.
func (v value) headers(secret []string) []string {
	var names []string
	entries, _ := v.list("a list of the headers to keep")
	for _, entry := range entries {
		var name string
		if !entry.header(&name) {
			continue
		}
		if slices.ContainsFunc(secret, func(s string) bool { return strings.EqualFold(s, name) }) {
			entry.wrong("is a secret or a signature, which is not kept: leave it out")
		}
		names = append(names, name)
	}
	return names
}

// secretHeaders are those that prove who sent, or could.
func secretHeaders(s signature.Scheme) []string {
	names := append([]string{"Authorization", "Proxy-Authorization", "Cookie", s.Header, s.OldHeader}, s.MoreHeaders...)
	for _, other := range s.Or {
		names = append(names, secretHeaders(other)...)
	}
	return names
}

// rules reads the list of handlers.
func (v value) rules() []source.Rule {
	var all []source.Rule
	entries, _ := v.list("a list of {match: ..., handler: ...}")
	for _, entry := range entries {
		all = append(all, entry.rule())
	}
	return all
}

func (v value) rule() source.Rule {
	var r source.Rule
	m, ok := v.record("{match: ..., handler: ...}", "match", "handler", "amount")
	if !ok {
		return r
	}
	match, handler, amount := m.key("match"), m.key("handler"), m.key("amount")
	if !match.given() {
		match.wrong(`missing: say which types of event, such as match: "payment.*"`)
	}
	if !handler.given() {
		handler.wrong("missing: want payments, or one that the worker was built with")
	}
	match.text(&r.Match)
	if len(v.doc.handlers) == 0 {
		handler.text(&r.Handler)
	} else {
		handler.choice(&r.Handler, v.doc.handlers...)
	}
	if r.Handler == "payments" {
		r.Amount = source.Pointer("/amount")
	} else if amount.given() {
		amount.wrong("is for the handler payments alone")
	}
	if amount.given() {
		if at, ok := amount.record("{json: /pointer}", "json"); ok && at.key("json").given() {
			at.key("json").pointer(&r.Amount)
		} else if ok {
			amount.wrong("want {json: /pointer}")
		}
	}
	return r
}
