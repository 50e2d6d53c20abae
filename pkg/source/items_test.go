package source_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// batch is a source whose items are at a pointer.
func batch(pointer string, change ...func(*source.Source)) source.Source {
	s := source.New("x")
	s.ID, s.Type = []source.Locator{at("/id")}, []source.Locator{at("/type")}
	s.Items = &source.Locator{JSON: source.Pointer(pointer)}
	for _, f := range change {
		f(&s)
	}
	return s
}

// show writes items as one line.
func show(items []source.Item) string {
	var all []string
	for _, item := range items {
		text := fmt.Sprintf("%s %s %s", item.ID, item.Type, item.Body)
		if item.Ignored {
			text += " ignored"
		}
		if item.Err != nil {
			text += " " + item.Err.Error()
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

func TestItems(t *testing.T) {
	t.Parallel()
	root, inside := batch(""), batch("/data/events")
	header := batch("", func(s *source.Source) {
		s.ID = []source.Locator{{Header: "X-Id"}, at("/n")}
		s.Type = []source.Locator{{JSON: source.Pointer("/kind"), Envelope: true}, at("/type")}
	})
	envelope := batch("/events", func(s *source.Source) {
		s.ID = []source.Locator{{JSON: source.Pointer("/tenant"), Envelope: true}, number(at("/id"))}
	})
	content := batch("/events", func(s *source.Source) { s.ID = []source.Locator{{Content: true}}; s.Type[0].Optional = true })
	maybe := batch("/events", func(s *source.Source) { s.Items.Optional = true })
	tests := []struct {
		name   string
		source source.Source
		body   string
		want   string // of the items
		err    string // of the delivery
	}{
		{"one", root, `[{"id":"a","type":"t"}]`, `a t {"id":"a","type":"t"}`, ""},
		{"two, with white space", root, " [ {\"id\" :\"a\",\"type\":\"t\"} ,\r\n\t{\"type\":\"u\", \"id\":\"b\"}\n] ", `a t {"id" :"a","type":"t"}; b u {"type":"u", "id":"b"}`, ""},
		{"an object where the array should be", root, ` {"id":"a","type":"t"} `, `a t {"id":"a","type":"t"}`, ""},
		{"75 empty", root, `[]`, "", ""},
		{"75 empty, inside", inside, `{"data":{"events":[]}}`, "", ""},
		{"inside", inside, `{"data":{"x":1,"events":[{"id":"a","type":"t"},{"id":"b","type":"u"}]},"id":"no"}`, `a t {"id":"a","type":"t"}; b u {"id":"b","type":"u"}`, ""},
		{"inside, an object", inside, `{"data":{"events":{"id":"a","type":"t"}}}`, `a t {"id":"a","type":"t"}`, ""},
		{"inside, missing", inside, `{"data":{}}`, "", "/data/events: is missing"},
		{"inside, null", inside, `{"data":{"events":null}}`, "", "/data/events: is null, want an array"},
		{"inside, a text", inside, `{"data":{"events":"x"}}`, "", "/data/events: is a string, want an array"},
		{"inside, the root an array", inside, `[{"id":"a","type":"t"}]`, "", "/data/events: is missing"},
		{"root a number", root, `1`, "", "is a number, want an array"},
		{"73 an item without an id", root, `[{"id":"a","type":"t"},{"type":"t"},{"id":"c","type":"t"}]`,
			`a t {"id":"a","type":"t"};   {"type":"t"} id: is missing; c t {"id":"c","type":"t"}`, ""},
		{"73 an item without a type", root, `[{"id":"a"},{"id":"c","type":"t"}]`, `a  {"id":"a"} type: is missing; c t {"id":"c","type":"t"}`, ""},
		{"73 items that are no objects", root, `[1,null,"x",[],{"id":"c","type":"t"}]`,
			`  1 is not a JSON object;   null is not a JSON object;   "x" is not a JSON object;   [] is not a JSON object; c t {"id":"c","type":"t"}`, ""},
		{"73 an item with id and ID", root, `[{"id":"a","ID":"b","type":"t"},{"ID":"c","type":"t"},{"id":"d","type":"t"}]`,
			`  {"id":"a","ID":"b","type":"t"} /0/id: keys "id" and "ID" differ only in case;   {"ID":"c","type":"t"} id: is missing; d t {"id":"d","type":"t"}`, ""},
		{"49 broken at the end", root, `[{"id":"a","type":"t"},{"id":"b"`, "", "/1: broken JSON at byte 32: unexpected EOF"},
		{"50 something after it", root, `[{"id":"a","type":"t"}] []`, "", "must be one JSON value and nothing after it"},
		{"54 a key twice in one of them", root, `[{"id":"a","type":"t"},{"id":"b","id":"c"}]`, "", `/1/id: duplicate key "id"`},
		{"header and number", header, `[{"n":"1","type":"t"},{"n":"2","type":"u"}]`, `h:1 t {"n":"1","type":"t"}; h:2 u {"n":"2","type":"u"}`, "kind"},
		{"parts of the envelope", envelope, `{"tenant":"x","events":[{"id":9007199254740993,"type":"t"},{"id":1,"type":"t"}]}`,
			`x:9007199254740993 t {"id":9007199254740993,"type":"t"}; x:1 t {"id":1,"type":"t"}`, ""},
		{"envelope after the items", envelope, `{"events":[{"id":1,"type":"t"}],"tenant":"x"}`, `x:1 t {"id":1,"type":"t"}`, ""},
		{"content", content, `{"events":[{},{"type":"t"}]}`,
			`sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a unknown {}; sha256:5c5e2a34e3c1b5b2c3c1a1e1 t {"type":"t"}`, "hash"},
		{"optional, there", maybe, `{"id":"z","type":"z","events":[{"id":"a","type":"t"}]}`, `a t {"id":"a","type":"t"}`, ""},
		{"optional, not there", maybe, `{"id":"z","type":"z"}`, `z z {"id":"z","type":"z"}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := http.Header{"Content-Type": {"application/json"}, "X-Id": {"h"}}
			items, err := tt.source.Read(h, []byte(tt.body))
			switch got := show(items); {
			case tt.err == "hash":
				if len(items) != 2 || !strings.HasPrefix(got, tt.want[:40]) || items[0].ID == items[1].ID || err != nil {
					t.Errorf("Read = %s, %v", got, err)
				}
			case tt.err == "kind": // the type of the envelope is of the whole array, which has none
				if !strings.Contains(got, "kind: is missing") || err != nil {
					t.Errorf("Read = %s, %v", got, err)
				}
			case got != tt.want || err == nil && tt.err != "" || err != nil && err.Error() != tt.err:
				t.Errorf("Read = %s, %v, want %s, %s", got, err, tt.want, tt.err)
			}
			for _, item := range items {
				if _, ok := errors.AsType[*webhook.InvalidError](item.Err); item.Err != nil && !ok {
					t.Errorf("%T is not an InvalidError", item.Err)
				}
				if !bytes.Contains([]byte(tt.body), item.Body) {
					t.Errorf("%s is no part of the body", item.Body)
				}
			}
		})
	}
}

// 75: there is a limit to how many.
func TestTooManyItems(t *testing.T) {
	t.Parallel()
	s := batch("")
	for n, want := range map[int]bool{source.MaxItems: true, source.MaxItems + 1: false, 100_000: false} {
		items, err := s.Read(nil, []byte("["+strings.Repeat("1,", n-1)+"1]"))
		if want && (len(items) != n || err != nil) {
			t.Errorf("of %d items Read found %d, %v", n, len(items), err)
		}
		if many, ok := errors.AsType[*webhook.TooManyError](err); !want && (!ok || many.Limit != source.MaxItems || items != nil) {
			t.Errorf("of %d items Read says %v", n, err)
		}
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	yes, no := true, false
	of := func(live *bool, ignore ...string) source.Source {
		s := source.New("x")
		s.ID, s.Type = []source.Locator{at("/id")}, []source.Locator{at("/type")}
		s.Ignore, s.Live, s.Livemode = ignore, live, at("/livemode")
		return s
	}
	tests := []struct {
		source source.Source
		body   string
		want   bool
	}{
		{of(nil), `"type":"ping","livemode":false`, false},
		{of(nil, "ping"), `"type":"ping"`, true},
		{of(nil, "ping"), `"type":"pings"`, false},
		{of(nil, "ping"), `"type":"PING"`, false},
		{of(nil, "ping", "check_run.*"), `"type":"check_run.created"`, true},
		{of(nil, "check_run.*"), `"type":"check_run"`, false},
		{of(nil, "*"), `"type":"anything"`, true},
		{of(&yes), `"type":"t","livemode":true`, false},
		{of(&yes), `"type":"t","livemode":false`, true},
		{of(&no), `"type":"t","livemode":true`, true},
		{of(&no), `"type":"t","livemode":false`, false},
		{of(&yes), `"type":"t","livemode":"false"`, true},
		{of(&yes), `"type":"t","livemode":"true"`, false},
		// What does not say is not left out.
		{of(&yes), `"type":"t"`, false},
		{of(&yes), `"type":"t","livemode":null`, false},
		{of(&yes), `"type":"t","livemode":0`, false},
		{of(&yes), `"type":"t","livemode":"no"`, false},
	}
	for _, tt := range tests {
		items, err := tt.source.Read(nil, []byte(`{"id":"a",`+tt.body+`}`))
		if err != nil || len(items) != 1 || items[0].Ignored != tt.want {
			t.Errorf("%q, live %v: Read(%s) = %+v, %v, want ignored %t", tt.source.Ignore, tt.source.Live, tt.body, items, err, tt.want)
		}
	}
	s := batch("/events")
	s.Live, s.Livemode = &yes, source.Locator{JSON: source.Pointer("/live"), Envelope: true}
	items, err := s.Read(nil, []byte(`{"live":"false","events":[{"id":"a","type":"t"},{"id":"b","type":"t"}]}`))
	if err != nil || len(items) != 2 || !items[0].Ignored || !items[1].Ignored {
		t.Errorf("of an envelope that is not live, Read = %+v, %v", items, err)
	}
}
