package source_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func at(pointer string) source.Locator { return source.Locator{JSON: source.Pointer(pointer)} }

// with returns a locator with a change.
func with(l source.Locator, change func(*source.Locator)) source.Locator {
	change(&l)
	return l
}

func number(l source.Locator) source.Locator {
	return with(l, func(l *source.Locator) { l.Number = true })
}
func optional(l source.Locator) source.Locator {
	return with(l, func(l *source.Locator) { l.Optional = true })
}

// identified is a source of which only the id is of interest.
func identified(parts ...source.Locator) source.Source {
	s := source.New("x")
	s.ID, s.Type = parts, []source.Locator{{Text: "t"}}
	return s
}

func TestIdentity(t *testing.T) {
	t.Parallel()
	one, two := identified(at("/a")), identified(at("/a"), at("/b"))
	exact := identified(number(at("/a")))
	maybe := identified(at("/a"), optional(at("/b")), optional(at("/c")))
	either := identified(with(source.Locator{Header: "X-A"}, func(l *source.Locator) {
		l.Or = []source.Locator{{Header: "X-B"}, number(at("/a"))}
	}), at("/b"))
	content := source.New("x")
	content.ID, content.Type = []source.Locator{{Content: true}}, []source.Locator{{Text: "t"}}
	hash := func(body string) string { return fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(body))) }
	long := strings.Repeat("x", 200)
	tests := []struct {
		name   string
		source source.Source
		header http.Header
		body   string
		id     string
		err    string
	}{
		{"a part is kept as it is", one, nil, `{"a":"50% of a:b"}`, "50% of a:b", ""},
		{"parts", two, nil, `{"a":"1","b":"2"}`, "1:2", ""},
		// A26: no two lists of parts make the same id.
		{"A26 colon in the first", two, nil, `{"a":"a:b","b":"c"}`, "a%3Ab:c", ""},
		{"A26 colon in the second", two, nil, `{"a":"a","b":"b:c"}`, "a:b%3Ac", ""},
		{"A26 escape in the first", two, nil, `{"a":"a%3Ab","b":"c"}`, "a%253Ab:c", ""},
		{"first missing", two, nil, `{"b":"2"}`, "", "a: is missing"},
		{"second missing", two, nil, `{"a":"1"}`, "", "b: is missing"},
		{"second null", two, nil, `{"a":"1","b":null}`, "", "b: is null, want a string"},
		{"second empty", two, nil, `{"a":"1","b":""}`, "", "b: is empty"},
		{"second blank", two, nil, `{"a":"1","b":" "}`, "", "b: is blank"},
		{"too long together", two, nil, `{"a":"` + long + `","b":"` + long + `"}`, "", "a: is longer than 255 bytes"},
		{"too long once escaped", two, nil, `{"a":"` + strings.Repeat(":", 100) + `","b":"b"}`, "", "a: is longer than 255 bytes"},

		{"A20 all zeros", one, nil, `{"a":"0000000000000000000000000000000000000000"}`, "", "a: is all zeros"},
		{"A20 all zeros with dashes", one, nil, `{"a":"00000000-0000-0000-0000-000000000000"}`, "", "a: is all zeros"},
		{"A20 all zeros in a part", two, nil, `{"a":"x","b":"00000000"}`, "", "b: is all zeros"},
		{"zero", one, nil, `{"a":"0"}`, "0", ""},
		{"seven zeros", one, nil, `{"a":"0000000"}`, "0000000", ""},
		{"zeros and a one", one, nil, `{"a":"00000000-0001"}`, "00000000-0001", ""},
		{"dashes", one, nil, `{"a":"--------"}`, "--------", ""},

		{"A69 number", exact, nil, `{"a":10002318}`, "10002318", ""},
		{"A69 2^53+1", exact, nil, `{"a":9007199254740993}`, "9007199254740993", ""},
		{"A69 20 digits", exact, nil, `{"a":12345678901234567890}`, "12345678901234567890", ""},
		{"A69 zero", exact, nil, `{"a":0}`, "0", ""},
		{"A69 negative", exact, nil, `{"a":-7}`, "-7", ""},
		{"A69 a text where numbers are", exact, nil, `{"a":"7"}`, "7", ""},
		{"A69 exponent", exact, nil, `{"a":1.0002318e7}`, "", "a: 1.0002318e7 is not an integer literal"},
		{"A69 fraction", exact, nil, `{"a":1.0}`, "", "a: 1.0 is not an integer literal"},
		{"A69 minus zero", exact, nil, `{"a":-0}`, "", "a: -0 is not an integer literal"},
		{"A69 256 digits", exact, nil, `{"a":` + strings.Repeat("9", 256) + `}`, "", "a: is longer than 255 bytes"},
		{"number where texts are", one, nil, `{"a":7}`, "", "a: is a number, want a string"},
		{"bool where numbers are", exact, nil, `{"a":true}`, "", "a: is a bool, want a string"},

		{"all parts", maybe, nil, `{"a":"1","b":"2","c":"3"}`, "1:2:3", ""},
		{"a part missing", maybe, nil, `{"a":"1","c":"3"}`, "1::3", ""},
		{"another part missing", maybe, nil, `{"a":"1","b":"3"}`, "1:3:", ""},
		{"a part null", maybe, nil, `{"a":"1","b":null,"c":"3"}`, "1::3", ""},
		{"a part empty", maybe, nil, `{"a":"1","b":"","c":"3"}`, "1::3", ""},
		{"a part blank", maybe, nil, `{"a":"1","b":" ","c":"3"}`, "", "b: is blank"},
		{"a part all zeros", maybe, nil, `{"a":"1","b":"00000000","c":"3"}`, "", "b: is all zeros"},
		{"the part that must be there missing", maybe, nil, `{"b":"2"}`, "", "a: is missing"},
		{"all optional, none there", identified(optional(at("/a")), optional(at("/b"))), nil, `{"a":null}`, "", "a: is missing"},
		{"one, optional, not there", identified(optional(at("/a"))), nil, `{}`, "", "a: is missing"},

		{"the first place", either, header("X-A", "1", "X-B", "2"), `{"a":3,"b":"b"}`, "1:b", ""},
		{"the second place", either, header("X-B", "2"), `{"a":3,"b":"b"}`, "2:b", ""},
		{"the third place", either, nil, `{"a":3,"b":"b"}`, "3:b", ""},
		{"no place", either, nil, `{"b":"b"}`, "", "X-A: is missing"},
		{"the first place spoilt", either, header("X-A", " ", "X-B", "2"), `{"a":3,"b":"b"}`, "", "X-A: is blank"},

		{"A25 content", content, nil, `{"a":1}`, hash(`{"a":1}`), ""},
		{"A25 content with a space", content, nil, `{"a": 1}`, hash(`{"a": 1}`), ""},
		{"content that is no object", content, nil, `[]`, "", "is not a JSON object"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			id, typ, err := readOne(tt.source, tt.header, []byte(tt.body))
			if tt.err == "" && (id != tt.id || typ != "t" || err != nil) || tt.err != "" && (err == nil || err.Error() != tt.err || id != "") {
				t.Errorf("Read(%.60s) = %q, %q, %v, want %q, %s", tt.body, id, typ, err, tt.id, tt.err)
			}
			if _, ok := errors.AsType[*webhook.InvalidError](err); err != nil && !ok {
				t.Errorf("%T is not an InvalidError", err)
			}
		})
	}
}

// A26: over many lists of parts, each makes an id of its own.
func TestIdentityIsUnambiguous(t *testing.T) {
	t.Parallel()
	words := []string{"", "a", ":", "%", "%3A", "a:", ":a", "3A", "%25", "::"}
	s, seen := identified(optional(at("/a")), optional(at("/b")), optional(at("/c"))), map[string]string{}
	for _, a := range words {
		for _, b := range words {
			for _, c := range words {
				var parts []string
				for i, w := range []string{a, b, c} {
					if w != "" {
						parts = append(parts, fmt.Sprintf("%q:%q", "abc"[i:i+1], w))
					}
				}
				body := "{" + strings.Join(parts, ",") + "}"
				id, _, err := readOne(s, nil, []byte(body))
				if err != nil && len(parts) > 0 {
					t.Fatal(body, err)
				}
				if other, twice := seen[id]; twice {
					t.Errorf("%s and %s have the id %q", body, other, id)
				}
				seen[id] = body
			}
		}
	}
}

func TestType(t *testing.T) {
	t.Parallel()
	of := func(parts ...source.Locator) source.Source {
		s := identified(source.Locator{Text: "id"})
		s.Type = parts
		return s
	}
	tests := []struct {
		name   string
		source source.Source
		body   string
		typ    string
		err    string
	}{
		{"text", of(source.Locator{Text: "payment"}), `{}`, "payment", ""},
		{"text and more", of(source.Locator{Text: "payment"}, at("/a")), `{"a":"b"}`, "payment.b", ""},
		{"optional", of(optional(at("/a"))), `{"a":"b"}`, "b", ""},
		{"69 optional, missing", of(optional(at("/a"))), `{}`, "unknown", ""},
		{"69 optional, null", of(optional(at("/a"))), `{"a":null}`, "unknown", ""},
		{"69 optional, empty", of(optional(at("/a"))), `{"a":""}`, "unknown", ""},
		{"69 optional, blank", of(optional(at("/a"))), `{"a":" "}`, "", "a: is blank"},
		{"69 optional, a number", of(optional(at("/a"))), `{"a":1}`, "", "a: is a number, want a string"},
		{"69 not optional", of(at("/a")), `{}`, "", "a: is missing"},
		{"number", of(number(at("/a"))), `{"a":17}`, "17", ""},
		{"optional, a later one there", of(optional(at("/a")), at("/b")), `{"b":"c"}`, "c", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, typ, err := readOne(tt.source, nil, []byte(tt.body))
			if typ != tt.typ || err == nil && tt.err != "" || err != nil && err.Error() != tt.err {
				t.Errorf("Read(%s) = %q, %v, want %q, %s", tt.body, typ, err, tt.typ, tt.err)
			}
		})
	}
}
