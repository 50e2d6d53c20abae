package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// FuzzScan compares with encoding/json: what it refuses we refuse, and what it
// accepts we refuse only for a reason that accepted names. The values at the
// pointers are the same.
func FuzzScan(f *testing.F) {
	for _, body := range []string{
		``, ` `, `{}`, `[[]]`, `null`, `-0`, `1e999`, `"\ud800"`, `{"id":1}`, `{"id":1,"ID":2}`, `{"ID":2}`,
		`{"data":[{"id":"a","~":{"a/b":9007199254740993}},1.50]}`, `{"a":1,"\u0061":2}`, `{"\ud800":1,"\ud801":2}`,
		`{"id":1} x`, "\uFEFF{}", "\"\xff\"", `{"\u017f":1,"s":2,"S":3}`, `{"0":[0,[1]],"":{"":""}}`, `[1,]`, `{"a"}`,
		nested(128), nested(129), `{"data":` + nested(127) + `}`, `{"data":[` + nested(127) + `]}`, strings.Repeat("[", 200),
	} {
		f.Add([]byte(body), "/s")
	}
	fixed := []string{"", "/id", "/data", "/data/0", "/data/0/id", "/data/0/~0/a~1b", "/0/1/0", "//"}
	f.Fuzz(func(t *testing.T, body []byte, extra string) {
		pointers := fixed
		if _, err := payload.ParsePointer(extra); err == nil {
			pointers = append(fixed[:len(fixed):len(fixed)], extra)
		}
		before := bytes.Clone(body)
		found, err := payload.Scan(body, at(t, pointers...)...)
		if !bytes.Equal(body, before) {
			t.Fatalf("the body became %q", body)
		}
		if want := accepted(body, pointers); (err == nil) != want {
			t.Fatalf("Scan(%q, %q) = %v, want accepted: %t", body, pointers, err, want)
		}
		if err != nil {
			checkRefusal(t, err)
			return
		}
		for i, v := range found {
			want, ok := lookUp(decode(t, body), steps(pointers[i]))
			if ok != v.Found() || ok && !reflect.DeepEqual(decode(t, v.Raw), want) {
				t.Errorf("Scan(%q) at %q = %q, want %v, %t", body, pointers[i], v.Raw, want, ok)
			}
			checkValue(t, v, want)
		}
	})
}

// checkRefusal checks that err can be shown and logged as it is.
func checkRefusal(t *testing.T, err error) {
	t.Helper()
	invalid, ok := errors.AsType[*webhook.InvalidError](err)
	if !ok {
		t.Fatalf("%T is not an InvalidError: %v", err, err)
	}
	if len(invalid.Field) > 120 || len(invalid.Reason) > 200 {
		t.Errorf("too long: %q", err)
	}
	if text := err.Error(); !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		t.Errorf("not printable: %q", text)
	}
}

// checkValue compares the methods of v with what encoding/json makes of it.
func checkValue(t *testing.T, v payload.Value, want any) {
	t.Helper()
	text, err := v.Text()
	if s, ok := want.(string); ok && text != s && !strings.ContainsRune(s, '\uFFFD') || !ok && err == nil {
		t.Errorf("Text of %q = %q, %v, want %q", v.Raw, text, err, want)
	}
	number, _ := want.(json.Number)
	n, err := v.Integer()
	if i, ierr := strconv.ParseInt(string(number), 10, 64); n != i && ierr == nil || (err == nil) != (ierr == nil && number != "-0") {
		t.Errorf("Integer of %q = %d, %v, want %v", v.Raw, n, err, want)
	}
	if digits, ok := v.Digits(); ok && digits != string(number) {
		t.Errorf("Digits of %q = %q, want %v", v.Raw, digits, want)
	}
}

// accepted is what Scan is to accept, told by encoding/json and the documented
// exceptions from it.
func accepted(body []byte, pointers []string) bool {
	if !json.Valid(body) || !utf8.Valid(body) {
		return false // encoding/json refuses a byte order mark too
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	doc, ok := walk(dec, 0)
	if !ok {
		return false
	}
	for _, p := range pointers {
		if twins(doc, steps(p)) {
			return false
		}
	}
	return true
}

// walk reads one value of valid JSON and reports whether it is without
// duplicate keys and not too deep.
func walk(dec *json.Decoder, depth int) (any, bool) {
	tok, _ := dec.Token()
	delim, ok := tok.(json.Delim)
	if !ok {
		return tok, true
	}
	if depth == 128 {
		return nil, false
	}
	object, array := map[string]any{}, []any{}
	for dec.More() {
		var key string
		if delim == '{' {
			tok, _ := dec.Token()
			key = tok.(string)
		}
		v, ok := walk(dec, depth+1)
		if _, dup := object[key]; !ok || dup {
			return nil, false
		}
		if delim == '{' {
			object[key] = v
		} else {
			array = append(array, v)
		}
	}
	dec.Token() // the end
	if delim == '{' {
		return object, true
	}
	return array, true
}

// twins reports whether a key on the way down the steps stands beside its twin.
func twins(doc any, steps []string) bool {
	if len(steps) == 0 {
		return false
	}
	if object, ok := doc.(map[string]any); ok {
		if _, exact := object[steps[0]]; exact {
			for key := range object {
				if key != steps[0] && strings.EqualFold(key, steps[0]) {
					return true
				}
			}
		}
	}
	child, ok := lookUp(doc, steps[:1])
	return ok && twins(child, steps[1:])
}

func lookUp(doc any, steps []string) (any, bool) {
	for _, step := range steps {
		switch v := doc.(type) {
		case map[string]any:
			child, ok := v[step]
			if !ok {
				return nil, false
			}
			doc = child
		case []any:
			i, err := strconv.ParseUint(step, 10, 31)
			if err != nil || i >= uint64(len(v)) || step != "0" && step[0] == '0' {
				return nil, false
			}
			doc = v[i]
		default:
			return nil, false
		}
	}
	return doc, true
}

// steps splits a valid pointer.
func steps(pointer string) []string {
	steps := strings.Split(pointer, "/")[1:]
	for i, s := range steps {
		steps[i] = strings.ReplaceAll(strings.ReplaceAll(s, "~1", "/"), "~0", "~")
	}
	return steps
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatalf("encoding/json on %q: %v", text, err)
	}
	return v
}

// FuzzPointer checks that a pointer comes back as it was, and finds the value in
// a document that is made of its own steps.
func FuzzPointer(f *testing.F) {
	for _, s := range []string{"", "/", "/a/b~1c/0", "/~01", "/~", "/~2", "a", "/\xff", "//", "/a/a", "/\uFFFD", "/01"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		p, err := payload.ParsePointer(s)
		if valid := utf8.ValidString(s) && (s == "" || s[0] == '/') && !hasLooseTilde(s); (err == nil) != valid {
			t.Fatalf("ParsePointer(%q) = %v, want valid: %t", s, err, valid)
		}
		if err != nil || strings.Count(s, "/") > 128 {
			return
		}
		if p.String() != s {
			t.Errorf("ParsePointer(%q).String() = %q", s, p)
		}
		var doc any = json.Number("42")
		for parts := steps(s + "/")[:strings.Count(s, "/")]; len(parts) > 0; parts = parts[:len(parts)-1] {
			doc = map[string]any{parts[len(parts)-1]: doc}
		}
		body, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		found, err := payload.Scan(body, p)
		if err != nil || string(found[0].Raw) != "42" {
			t.Errorf("Scan(%s, %q) = %v, %v", body, s, found, err)
		}
	})
}

func hasLooseTilde(s string) bool {
	return strings.Contains(strings.NewReplacer("~0", "", "~1", "").Replace(s), "~")
}
