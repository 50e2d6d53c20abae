package payload_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// at parses pointers that are known to be right.
func at(tb testing.TB, pointers ...string) []payload.Pointer {
	tb.Helper()
	var parsed []payload.Pointer
	for _, s := range pointers {
		p, err := payload.ParsePointer(s)
		if err != nil {
			tb.Fatal(err)
		}
		parsed = append(parsed, p)
	}
	return parsed
}

// nested is depth arrays inside each other.
func nested(depth int) string {
	return strings.Repeat("[", depth) + strings.Repeat("]", depth)
}

func TestScanAccepts(t *testing.T) {
	tests := []struct{ name, body string }{
		{"object", `{"id":"1"}`},
		{"array", `[]`},
		{"string", `"x"`},
		{"null", `null`},
		{"white space around", " \t\r\n{} \t\r\n"},
		{"128 deep", nested(128)},
		{"128 deep, objects and arrays", strings.Repeat(`{"a":[`, 64) + strings.Repeat(`]}`, 64)},
		{"many short neighbours", "[" + strings.Repeat("[[]],", 10_000) + "[]]"},
		{"numbers of any size", `[9007199254740993, 1e999, 0.123456789012345678901234567890, -0]`},
		{"emoji", `{"🪝":"👩‍👩‍👧"}`},
		{"astral character, escaped", `"\ud83e\ude9d"`},
		{"lone surrogate in a value", `{"a":"\ud800"}`},
		{"lone surrogate in a key", `{"\udfff":1}`},
		{"NUL, escaped", `{"a\u0000":"\u0000"}`},
		{"mark inside a string", "\"\uFEFF\""},
		{"replacement character", `{"a":"` + "\uFFFD" + `"}`},
		{"same key in two objects", `{"a":{"a":1},"b":{"a":1}}`},
		{"keys in two Unicode forms", `{"` + "\u00e9" + `":1,"` + "e\u0301" + `":2}`},
		{"twins that no pointer names", `{"n":1,"N":2,"id":{"m":1,"M":2}}`},
		{"two twins without the key", `{"ID":1,"Id":2}`},
		{"twins in another object", `{"x":{"id":1,"ID":2}}`},
		{"key and twin in two objects", `{"id":{"ID":1}}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := payload.Scan([]byte(tt.body), at(t, "/id")...); err != nil {
				t.Errorf("Scan(%.80q) = %v", tt.body, err)
			}
		})
	}
}

func TestScanRefuses(t *testing.T) {
	long := strings.Repeat("é", 40)
	tests := []struct{ name, body, field, reason string }{
		{"empty", ``, "", "empty body"},
		{"white space only", " \n", "", "empty body"},
		{"invalid UTF-8 in a string", "\"\xff\"", "", "invalid UTF-8"},
		{"surrogate in UTF-8", "\"\xed\xa0\x80\"", "", "invalid UTF-8"},
		{"invalid UTF-8 outside", "\xff", "", "invalid UTF-8"},
		{"UTF-16", "\xff\xfe{\x00}\x00", "", "invalid UTF-8"},
		{"byte order mark", "\uFEFF{}", "", "starts with a byte order mark"},
		{"cut off", `{"data":[1,{"n":`, "/data/1/n", "broken JSON at byte 16: unexpected EOF"},
		{"cut off in a string", `"abc`, "", "broken JSON at byte 4: unexpected EOF"},
		{"word", `{"a":nul}`, "/a", "broken JSON at byte 8: invalid character '}' in literal null (expecting 'l')"},
		{"NaN", `NaN`, "", "broken JSON at byte 0: invalid character 'N' at start of value"},
		{"comma at the end", `{"a":1,}`, "", "broken JSON at byte 6: invalid character ',' at start of value"},
		{"no value", `{"a":}`, "/a", "broken JSON at byte 5: missing value after object name"},
		{"key is a number", `{1:2}`, "", "broken JSON at byte 1: object member name must be a string"},
		{"key is an array", `{[1]:2}`, "", "broken JSON at byte 1: object member name must be a string"},
		{"wrong bracket", `[}`, "/0", "broken JSON at byte 1: invalid character '}' at start of value"},
		{"leading zero", `[01]`, "", "broken JSON at byte 2: invalid character '1' after array element (expecting ',' or ']')"},
		{"bad escape", `"\x"`, "", "broken JSON at byte 1: invalid escape sequence `\\x` in string"},
		{"control character", "\"\x1b[31m\"", "", `broken JSON at byte 1: invalid character '\x1b' in string (expecting non-control character)`},
		{"comment", `{/**/}`, "", "broken JSON at byte 1: invalid character '/' at start of value"},
		{"form", `a=1&b=2`, "", "broken JSON at byte 0: invalid character 'a' at start of value"},
		{"second value", `{} {}`, "", "must be one JSON value and nothing after it"},
		{"letters after the value", `{}x`, "", "must be one JSON value and nothing after it"},
		{"NUL after the value", "{}\x00", "", "must be one JSON value and nothing after it"},
		{"bracket after the value", `{}}`, "", "must be one JSON value and nothing after it"},
		{"duplicate key", `{"a":1,"a":1}`, "/a", `duplicate key "a"`},
		{"duplicate id", `{"id":1,"id":1}`, "/id", `duplicate key "id"`},
		{"duplicate key, escaped", `{"a":1,"\u0061":1}`, "/a", `duplicate key "a"`},
		{"duplicate key, deep", `{"x":[0,{"a/b":1,"a/b":2}]}`, "/x/1/a~1b", `duplicate key "a/b"`},
		{"duplicate key, empty", `{"":1,"":1}`, "/", `duplicate key ""`},
		{"duplicate key, long", `{"` + long + `":1,"` + long + `":1}`, "", `duplicate key "` + long[:40] + `…"`},
		{"duplicate key, cut between characters", `{"x` + long + `":1,"x` + long + `":1}`, "", `duplicate key "x` + long[:38] + `…"`},
		{"duplicate key, control characters", `{"a":{"\u001b\n":1,"\u001b\n":2}}`, "/a", `duplicate key "\x1b\n"`},
		{"two lone surrogates as keys", `{"\ud800":1,"\ud801":1}`, "/\uFFFD", "duplicate key \"\uFFFD\""},
		{"129 deep", nested(129), strings.Repeat("/0", 60), "nested deeper than 128"},
		{"129 deep on the way of a pointer", `{"id":` + nested(128) + `}`, "/id" + strings.Repeat("/0", 58), "nested deeper than 128"},
		{"200,000 deep", nested(200_000), strings.Repeat("/0", 60), "nested deeper than 128"},
		{"200,000 deep and never closed", strings.Repeat(`{"a":`, 200_000), strings.Repeat("/a", 60), "nested deeper than 128"},
		{"200,000 deep in a key's place", `{` + nested(200_000), "", "broken JSON at byte 1: object member name must be a string"},
		{"twin before", `{"ID":1,"id":2}`, "/id", `keys "id" and "ID" differ only in case`},
		{"twin after", `{"id":1,"Id":2}`, "/id", `keys "id" and "Id" differ only in case`},
		{"twin, escaped", `{"id":1,"\u0049D":2}`, "/id", `keys "id" and "ID" differ only in case`},
		{"twin, after another twin", `{"ID":1,"iD":1,"id":2}`, "/id", `keys "id" and "ID" differ only in case`},
		{"twin on the way", `{"data":[{"key":{"n":1},"Key":0}]}`, "/data/0/key", `keys "key" and "Key" differ only in case`},
		{"twin by Unicode folding", `{"data":[{"key":1,"` + "\u212a" + `ey":0}]}`, "/data/0/key", `keys "key" and "` + "\u212a" + `ey" differ only in case`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			found, err := payload.Scan([]byte(tt.body), at(t, "/id", "/data/0/key/n")...)
			invalid, ok := errors.AsType[*webhook.InvalidError](err)
			if !ok || found != nil {
				t.Fatalf("Scan(%.80q) = %v, %v, want an InvalidError", tt.body, found, err)
			}
			if invalid.Field != tt.field || invalid.Reason != tt.reason {
				t.Errorf("Scan(%.80q)\n got %q: %s\nwant %q: %s", tt.body, invalid.Field, invalid.Reason, tt.field, tt.reason)
			}
		})
	}
}

func TestScanFinds(t *testing.T) {
	tests := []struct {
		pointer, body string
		kind          payload.Kind
		raw           string
	}{
		{"/id", `{"id":"x"}`, payload.String, `"x"`},
		{"/id", `{"x":1,"id": 7 ,"y":2}`, payload.Number, `7`},
		{"/id", "{\"id\"\n:\ttrue}", payload.Bool, `true`},
		{"/id", `{"id":false}`, payload.Bool, `false`},
		{"/id", `{"id":null}`, payload.Null, `null`},
		{"/id", `{"id":{ "a": [1, 2] } }`, payload.Object, `{ "a": [1, 2] }`},
		{"/id", `{"id": [ {}, 1 ] }`, payload.Array, `[ {}, 1 ]`},
		{"/id", `{"\u0069d":1}`, payload.Number, `1`},
		{"/id", `{"ID":1}`, "", ``},
		{"/id", `{"x":{"id":1}}`, "", ``},
		{"/id", `[{"id":1}]`, "", ``},
		{"/id", `"id"`, "", ``},
		{"", ` {"a": 1} `, payload.Object, `{"a": 1}`},
		{"", ` 12 `, payload.Number, `12`},
		{"", `null`, payload.Null, `null`},
		{"/", `{"":1}`, payload.Number, `1`},
		{"//", `{"":{"":2}}`, payload.Number, `2`},
		{"/a/b", `{"a":{"b":1},"b":2}`, payload.Number, `1`},
		{"/a/b", `{"x":{"a":0,"b":5},"a":{"x":{"b":3},"b":1}}`, payload.Number, `1`},
		{"/a/b", `{"a":1}`, "", ``},
		{"/a/b", `{"a":["b"]}`, "", ``},
		{"/a~1b", `{"a/b":1}`, payload.Number, `1`},
		{"/m~0n", `{"m~n":1}`, payload.Number, `1`},
		{"/~01", `{"~1":1,"/":2}`, payload.Number, `1`},
		{"/🪝", `{"\ud83e\ude9d":1}`, payload.Number, `1`},
		{"/0", `["a","b"]`, payload.String, `"a"`},
		{"/1", `["a","b"]`, payload.String, `"b"`},
		{"/2", `["a","b"]`, "", ``},
		{"/01", `["a","b"]`, "", ``},
		{"/-", `["a","b"]`, "", ``},
		{"/-1", `["a","b"]`, "", ``},
		{"/+1", `["a","b"]`, "", ``},
		{"/18446744073709551617", `["a","b"]`, "", ``},
		{"/01", `{"01":1}`, payload.Number, `1`},
		{"/1", `{"1":2}`, payload.Number, `2`},
		{"/10", `[0,1,2,3,4,5,6,7,8,9,"ten"]`, payload.String, `"ten"`},
		{"/1/0/k", `[0,[{"k":"v"}]]`, payload.String, `"v"`},
		{"/a/1", `{"a":[[9,8],[7,6]]}`, payload.Array, `[7,6]`},
	}
	for _, tt := range tests {
		t.Run(tt.pointer+" "+tt.body, func(t *testing.T) {
			found, err := payload.Scan([]byte(tt.body), at(t, tt.pointer)...)
			if err != nil {
				t.Fatal(err)
			}
			v := found[0]
			if v.Kind != tt.kind || string(v.Raw) != tt.raw || v.Found() != (tt.kind != "") {
				t.Errorf("Scan(%q, %q) = %q %q, want %q %q", tt.body, tt.pointer, v.Kind, v.Raw, tt.kind, tt.raw)
			}
		})
	}
}

func TestScanFollowsPointerToTheLimit(t *testing.T) {
	found, err := payload.Scan([]byte(nested(128)), at(t, strings.Repeat("/0", 127))...)
	if err != nil || string(found[0].Raw) != "[]" {
		t.Errorf("128 deep: %v, %v", found, err)
	}
	if found, err := payload.Scan([]byte(nested(129)), at(t, strings.Repeat("/0", 128))...); err == nil {
		t.Errorf("129 deep: %v, want a refusal", found)
	}
}

func TestScanFindsOverlapping(t *testing.T) {
	body := `{"x":0,"data":{"object":{"id":"a"},"n":1},"type":"t"}`
	pointers := []string{"/data/object/id", "/data", "", "/data/object", "/type", "/data", "/data/n", "/gone", "/type/x"}
	want := []string{`"a"`, `{"object":{"id":"a"},"n":1}`, body, `{"id":"a"}`, `"t"`, `{"object":{"id":"a"},"n":1}`, `1`, ``, ``}
	found, err := payload.Scan([]byte(body), at(t, pointers...)...)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range found {
		if string(v.Raw) != want[i] {
			t.Errorf("at %q: %q, want %q", pointers[i], v.Raw, want[i])
		}
	}
}

func TestScanAliasesBody(t *testing.T) {
	body := []byte(`{"id":"\u0061","a":[1]}`)
	before := bytes.Clone(body)
	found, err := payload.Scan(body, at(t, "/id", "/a")...)
	if err != nil {
		t.Fatal(err)
	}
	if &found[0].Raw[0] != &body[6] || &found[1].Raw[0] != &body[19] {
		t.Error("the values are not parts of the body")
	}
	if !bytes.Equal(body, before) {
		t.Errorf("the body became %s", body)
	}
}

// Scanners are used again, also after a refusal and with other pointers.
func TestScanConcurrently(t *testing.T) {
	pointers := at(t, "/a", "/b/0", "/c/d")
	shared := []byte(`{"a":"s","b":["t"],"c":{"d":"u"}}`)
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 200 {
				text := fmt.Sprintf("%d-%d", n, i)
				found, err := payload.Scan(fmt.Appendf(nil, `{"x":[{}],"c":{"d":%q}}`, text), pointers[i%3:]...)
				if got := found[len(found)-1]; err != nil || string(got.Raw) != `"`+text+`"` {
					t.Errorf("found %s, %v, want %s", got.Raw, err, text)
				}
				payload.Scan([]byte(`{"a":[[{"b":1`), pointers...) // refused; leaves nothing behind
				if found, err := payload.Scan(shared, pointers...); err != nil || string(found[1].Raw) != `"t"` {
					t.Errorf("found %v, %v", found, err)
				}
			}
		})
	}
	wg.Wait()
}
