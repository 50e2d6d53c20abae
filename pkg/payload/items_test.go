package payload_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestScanItems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, body, list string
		want             string // list; whole; and of each item itself, /id and /a/0
	}{
		{"root", `[{"id":1,"a":[2]},{"a":[]},3]`, "", `array; []; {"id":1,"a":[2]} 1 2, {"a":[]}  , 3  ,`},
		{"inside", `{"w":0,"l":{"i":[{"id":"x"},{"id":"y"}]},"id":9}`, "/l/i", `array; [0]; {"id":"x"} "x" , {"id":"y"} "y" ,`},
		{"inside an array", `[[],[{"id":1}]]`, "/1", `array; []; {"id":1} 1 ,`},
		{"whole after the list", `{"l":[{}],"w":{"x":1}}`, "/l", `array; [{"x":1}]; {}  ,`},
		{"empty", `{"l":[]}`, "/l", `array; []; `},
		{"missing", `{"m":[{}]}`, "/l", `; []; `},
		{"an object", `{"l":{"id":1,"a":[7]}}`, "/l", `object; []; {"id":1,"a":[7]} 1 7,`},
		{"the root an object", "\n" + `{"id":1}`, "", `object; []; {"id":1} 1 ,`},
		{"a text", `{"l":"x"}`, "/l", `string; []; "x"  ,`},
		{"items in items", `[[{"id":1}],[{"id":2}]]`, "", `array; []; [{"id":1}]  , [{"id":2}]  ,`},
		{"the way leads through a text", `{"l":"x"}`, "/l/i", `; []; `},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			found, err := payload.ScanItems([]byte(tt.body), payload.Query{List: at(t, tt.list)[0], Each: at(t, "", "/id", "/a/0"), Whole: at(t, "/w"), Most: 9})
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprintf("%s; [%s]; ", found.List.Kind, found.Whole[0].Raw)
			for _, item := range found.Each {
				got += fmt.Sprintf("%s %s %s, ", item.Values[0].Raw, item.Values[1].Raw, item.Values[2].Raw)
				if item.Err != nil {
					t.Error(item.Err)
				}
			}
			if strings.TrimSpace(got) != strings.TrimSpace(tt.want) {
				t.Errorf("ScanItems = %s, want %s", got, tt.want)
			}
		})
	}
}

func TestScanItemsRefused(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{
		``:                       "empty body",
		"[\"\xff\"]":             "invalid UTF-8",
		"\uFEFF[]":               "starts with a byte order mark",
		`[1`:                     "broken JSON at byte 2: unexpected EOF",
		`[] 1`:                   "must be one JSON value and nothing after it",
		`[{"id":1,"id":2}]`:      `/0/id: duplicate key "id"`,
		`[{"b":[{"x":1,"x"]}]`:   `/0/b/0/x: duplicate key "x"`,
		`{"w":1,"W":2,"l":[]}`:   `/w: keys "w" and "W" differ only in case`,
		strings.Repeat("[", 200): strings.Repeat("/0", 60) + ": nested deeper than 128",
	} {
		_, err := payload.ScanItems([]byte(body), payload.Query{Each: at(t, "/id"), Whole: at(t, "/w"), Most: 9})
		if invalid, ok := errors.AsType[*webhook.InvalidError](err); !ok || invalid.Error() != want {
			t.Errorf("ScanItems(%.40s) = %v, want %s", body, err, want)
		}
	}
	for n, want := range map[int]bool{0: true, 9: true, 10: false, 1000: false} {
		_, err := payload.ScanItems([]byte("["+strings.TrimSuffix(strings.Repeat("{},", n), ",")+"]"), payload.Query{Each: at(t, ""), Most: 9})
		if many, ok := errors.AsType[*webhook.TooManyError](err); want != (err == nil) || !want && (!ok || many.Limit != 9) {
			t.Errorf("ScanItems of %d items = %v", n, err)
		}
	}
}

// A key in two spellings spoils its own item and no other.
func TestScanItemsTwins(t *testing.T) {
	t.Parallel()
	found, err := payload.ScanItems([]byte(`[{"id":1},{"id":2,"ID":2},{"Id":3},{"a":{"Id":0},"id":4}]`), payload.Query{Each: at(t, "/id"), Most: 9})
	if err != nil || len(found.Each) != 4 {
		t.Fatal(found, err)
	}
	for i, want := range []string{"1", "2", "", "4"} {
		item := found.Each[i]
		if string(item.Values[0].Raw) != want || (item.Err != nil) != (i == 1) {
			t.Errorf("item %d = %s, %v, want %s", i, item.Values[0].Raw, item.Err, want)
		}
	}
}

// What ScanItems finds in an item, Scan finds in its bytes alone; and the items
// are what encoding/json finds.
func FuzzScanItems(f *testing.F) {
	for _, body := range []string{
		`[{"id":1},{"id":2}]`, `{"l":[{"id":1,"a":[{"b":null}]},{},[],7]}`, `{"l":{"id":1}}`, `{"l":[]}`, `[]`, `{}`, `[[[]]]`, `null`,
		`{"l":[{"id":1,"ID":2}],"L":1}`, `{"l":[{"\u0069d":"\ud800"}]}`, ` [ 1 , 2 ] `, `[1`, `{"l":[{"id":1,"id":1}]}`, `{"l":[{"a":{"0":1}}]}`,
	} {
		f.Add([]byte(body), "/l")
		f.Add([]byte(body), "")
	}
	f.Fuzz(func(t *testing.T, body []byte, list string) {
		p, err := payload.ParsePointer(list)
		if err != nil {
			t.Skip()
		}
		each := at(t, "", "/id", "/a/0/b")
		found, err := payload.ScanItems(body, payload.Query{List: p, Each: each, Whole: at(t, "/w"), Most: 100})
		plain, plainErr := payload.Scan(body, append(at(t, "/w"), p)...)
		if err != nil {
			if _, many := errors.AsType[*webhook.TooManyError](err); !many && plainErr == nil {
				t.Fatalf("ScanItems(%q, %q) = %v, but Scan takes it", body, list, err)
			}
			return
		}
		if plainErr != nil || !bytes.Equal(found.List.Raw, plain[1].Raw) || !bytes.Equal(found.Whole[0].Raw, plain[0].Raw) {
			t.Fatalf("ScanItems(%q, %q) = %s, %s, but Scan %s, %v", body, list, found.List.Raw, found.Whole[0].Raw, plain, plainErr)
		}
		var want []json.RawMessage
		if found.List.Kind == payload.Array {
			if err := json.Unmarshal(found.List.Raw, &want); err != nil || len(want) != len(found.Each) {
				t.Fatalf("ScanItems(%q, %q) has %d items, encoding/json %d, %v", body, list, len(found.Each), len(want), err)
			}
		}
		for i, item := range found.Each {
			alone, err := payload.Scan(item.Values[0].Raw, each...)
			if (err != nil) != (item.Err != nil) {
				t.Fatalf("item %d of %q: %v, alone %v", i, body, item.Err, err)
			}
			for j := range alone {
				if !bytes.Equal(alone[j].Raw, item.Values[j].Raw) || alone[j].Kind != item.Values[j].Kind {
					t.Errorf("item %d of %q has %s, alone %s", i, body, item.Values[j].Raw, alone[j].Raw)
				}
			}
			if want != nil && !bytes.Equal(bytes.TrimSpace(want[i]), item.Values[0].Raw) {
				t.Errorf("item %d of %q is %s, want %s", i, body, item.Values[0].Raw, want[i])
			}
		}
	})
}
