package source_test

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// What the source default accepts, encoding/json reads in the same way, both by
// the exact keys and, as it does with a struct, by keys in any case.
func FuzzRead(f *testing.F) {
	for _, change := range [][2]string{
		{"", ""}, {"evt_1", `\u0065vt_1`}, {"evt_1", `\ud83e\ude9d`}, {"evt_1", `\ud800`}, {"evt_1", `a\u0000`}, {"evt_1", "\xff"},
		{"1099", "1e3"}, {"1099", "1.0"}, {"1099", "-1"}, {"1099", "-0"}, {"1099", "9007199254740993"}, {"1099", "9223372036854775808"},
		{"1700000000", "0"}, {`"amount"`, `"Amount":1,"amount"`}, {`"timestamp"`, `"time\u017ftamp"`}, {`"timestamp"`, `"timeſtamp":2,"timestamp"`},
		{"{", `{"event_id":"evt_0",`}, {"{", `{"data":{"event_id":[]},`}, {"}", "}}"}, {"}", "}\x00"}, {"{", "\uFEFF{"}, {payment, "[]"}, {payment, "null"},
	} {
		f.Add([]byte(strings.Replace(payment, change[0], change[1], 1)))
	}
	s := source.Default()
	f.Fuzz(func(t *testing.T, body []byte) {
		id, typ, err := readOne(s, nil, body)
		if err != nil {
			invalid, ok := errors.AsType[*webhook.InvalidError](err)
			if !ok || invalid.Reason == "" || !utf8.ValidString(err.Error()) || strings.ContainsFunc(err.Error(), unicode.IsControl) {
				t.Errorf("Read(%q) = %T %q", body, err, err)
			}
			return
		}
		var exact map[string]json.RawMessage
		var loose struct {
			ID        string `json:"event_id"`
			Type      string `json:"event_type"`
			Amount    int64  `json:"amount"`
			Timestamp int64  `json:"timestamp"`
		}
		if err := errors.Join(json.Unmarshal(body, &exact), json.Unmarshal(body, &loose)); err != nil {
			t.Fatalf("Read(%q) = %q, %q, but encoding/json says %v", body, id, typ, err)
		}
		checkText(t, "event_id", id, loose.ID, exact["event_id"])
		checkText(t, "event_type", typ, loose.Type, exact["event_type"])
		checkInteger(t, "amount", loose.Amount, 0, exact["amount"])
		checkInteger(t, "timestamp", loose.Timestamp, 1, exact["timestamp"])
	})
}

func checkText(t *testing.T, key, got, loose string, raw json.RawMessage) {
	t.Helper()
	var exact string
	if err := json.Unmarshal(raw, &exact); err != nil || got != exact || got != loose {
		t.Errorf("Read has the %s %q, encoding/json %q and %q, %v", key, got, exact, loose, err)
	}
	if len(got) == 0 || len(got) > 255 || !utf8.ValidString(got) || strings.ContainsFunc(got, unicode.IsControl) {
		t.Errorf("Read has the %s %q", key, got)
	}
}

// checkInteger knows that Read accepted the body, so the number must be written as an integer.
func checkInteger(t *testing.T, key string, loose, least int64, raw json.RawMessage) {
	t.Helper()
	if n, err := strconv.ParseInt(string(raw), 10, 64); err != nil || n != loose || n < least || strconv.FormatInt(n, 10) != string(raw) {
		t.Errorf("Read accepts the %s %s, encoding/json has %d", key, raw, loose)
	}
}
