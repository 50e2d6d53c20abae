package config

import (
	"slices"

	"github.com/hookonce/hookonce/pkg/source"
)

// identity reads where id and type are.
func (m mapping) identity(s *source.Source, how origin) {
	id, typ := m.key("id"), m.key("type")
	own := source.Default()
	if s.Name == own.Name && (how.kind == "none" || how.kind == "hmac") && !id.given() && !typ.given() {
		s.ID, s.Type, s.Integers, s.Handlers = own.ID, own.Type, own.Integers, own.Handlers
		return
	}
	typ.locators(&s.Type, typeKeys)
	id.identity(s)
	m.items(s)
	if how.kind != "" && len(how.preset.ID) == 0 && !id.given() {
		id.wrong("missing: say where the id of an event is, such as id: {json: /id}, or {header: X-Event-Id}, or id: content")
	}
	if how.kind != "" && len(how.preset.Type) == 0 && !typ.given() {
		typ.wrong("missing: say where the type of an event is, such as type: {json: /type}, or {header: X-Event-Type}")
	}
}

// What a locator may have, beside the place.
var (
	idKeys   = []string{"number", "optional", "envelope", "or"}
	typeKeys = []string{"text", "number", "optional", "envelope", "or"}
)

// Words that stand for a locator.
const (
	contentWord  = "content"
	deliveryWord = "delivery"
)

// identity reads the key id.
func (v value) identity(s *source.Source) {
	switch word, _ := v.raw(); word {
	case contentWord:
		s.ID = []source.Locator{{Content: true}}
	case deliveryWord:
		s.ID = []source.Locator{{Delivery: true}}
	default:
		v.locators(&s.ID, idKeys)
	}
}

// locators reads one or a list of them.
func (v value) locators(to *[]source.Locator, more []string) {
	if !v.given() {
		return
	}
	entries := []value{v}
	if _, isMapping := v.isMapping(); !isMapping {
		var ok bool
		if entries, ok = v.list(aLocator + ", or a list of them"); !ok {
			return
		}
		if len(entries) == 0 {
			v.wrong("must not be empty: want %s", aLocator)
			return
		}
	}
	all, good := make([]source.Locator, len(entries)), true
	for i, entry := range entries {
		if raw, ok := entry.raw(); ok && raw == contentWord && !slices.Contains(more, "text") {
			all[i].Content = true
			continue
		}
		good = entry.locator(&all[i], more) && good
	}
	if good {
		*to = all
	}
}

const aLocator = "{json: /pointer}, {header: X-Name} or {form: field}"

// locator reads one.
func (v value) locator(to *source.Locator, more []string) bool {
	m, ok := v.record(aLocator, append([]string{"json", "header", "form"}, more...)...)
	if !ok {
		return false
	}
	var at source.Locator
	ok = m.place(&at)
	before := len(v.doc.problems)
	m.key("number").flag(&at.Number)
	m.key("optional").flag(&at.Optional)
	m.key("envelope").flag(&at.Envelope)
	if or := m.key("or"); or.given() {
		or.locators(&at.Or, more)
	}
	if !ok || len(v.doc.problems) > before {
		return false
	}
	*to = at
	return true
}

// place reads the one key that says where a text is.
func (m mapping) place(at *source.Locator) bool {
	var places []string
	for _, key := range []string{"json", "header", "form", "text"} {
		if m.key(key).given() {
			places = append(places, key)
		}
	}
	if len(places) != 1 {
		m.wrong("want %s, one of them", aLocator)
		return false
	}
	switch v := m.key(places[0]); places[0] {
	case "json":
		return v.pointer(&at.JSON)
	case "header":
		return v.header(&at.Header)
	case "form":
		return v.text(&at.Form)
	default:
		return v.text(&at.Text)
	}
}

// items reads where the events of a batch are.
func (m mapping) items(s *source.Source) {
	v := m.key("items")
	if !v.given() {
		return
	}
	const what = `{json: /pointer}, {json: ""} for the whole body, or {form: field}`
	at, ok := v.record(what, "json", "form", "optional")
	if !ok {
		return
	}
	var items source.Locator
	json, form := at.key("json"), at.key("form")
	if !json.given() && !form.given() {
		v.wrong("want %s", what)
		return
	}
	json.anyPointer(&items.JSON)
	form.text(&items.Form)
	at.key("optional").flag(&items.Optional)
	s.Items = &items
}
