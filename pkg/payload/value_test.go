package payload_test

import (
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
)

// value is the whole of body, as Scan finds it.
func value(tb testing.TB, body string) payload.Value {
	tb.Helper()
	found, err := payload.Scan([]byte(body), payload.Pointer{})
	if err != nil {
		tb.Fatal(err)
	}
	return found[0]
}

// problem is the text of err, or "" if it is nil.
func problem(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

func TestText(t *testing.T) {
	tests := []struct{ body, want, problem string }{
		{`"evt_1"`, "evt_1", ""},
		{`""`, "", ""},
		{`" x "`, " x ", ""},
		{`"a\"b\\c\/d\n"`, "a\"b\\c/d\n", ""},
		{`"\u0041\u0000"`, "A\x00", ""},
		{`"🪝é"`, "🪝é", ""},
		{`"\ud83e\ude9d"`, "🪝", ""},
		{`"\ufffd"`, "\uFFFD", ""},
		{`"\ud800"`, "", "holds half of a surrogate pair"},
		{`"\ud800\ud800x"`, "", "holds half of a surrogate pair"},
		{`"\ude9d\ud83e"`, "", "holds half of a surrogate pair"},
		{`5`, "", "is a number, want a string"},
		{`true`, "", "is a bool, want a string"},
		{`null`, "", "is null, want a string"},
		{`{}`, "", "is an object, want a string"},
		{`[]`, "", "is an array, want a string"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			if got, err := value(t, tt.body).Text(); got != tt.want || problem(err) != tt.problem {
				t.Errorf("Text of %s = %q, %v, want %q, %s", tt.body, got, err, tt.want, tt.problem)
			}
		})
	}
}

func TestInteger(t *testing.T) {
	tests := []struct {
		body    string
		want    int64
		problem string
	}{
		{"0", 0, ""},
		{"-1", -1, ""},
		{"9007199254740993", 9007199254740993, ""}, // 2^53 + 1
		{"9223372036854775807", 9223372036854775807, ""},
		{"-9223372036854775808", -9223372036854775808, ""},
		{"9223372036854775808", 0, "is out of range"},
		{"-9223372036854775809", 0, "is out of range"},
		{"123456789012345678901234567890", 0, "is out of range"},
		{"1e3", 0, "1e3 is not an integer literal"},
		{"1E3", 0, "1E3 is not an integer literal"},
		{"1.0", 0, "1.0 is not an integer literal"},
		{"-0", 0, "-0 is not an integer literal"},
		{"-0.0", 0, "-0.0 is not an integer literal"},
		{"1." + strings.Repeat("0", 100), 0, "1." + strings.Repeat("0", 38) + "… is not an integer literal"},
		{`"5"`, 0, "is a string, want an integer"},
		{"true", 0, "is a bool, want an integer"},
		{"null", 0, "is null, want an integer"},
		{"[1]", 0, "is an array, want an integer"},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			if got, err := value(t, tt.body).Integer(); got != tt.want || problem(err) != tt.problem {
				t.Errorf("Integer of %s = %d, %v, want %d, %s", tt.body, got, err, tt.want, tt.problem)
			}
		})
	}
}

func TestDigits(t *testing.T) {
	tests := []struct {
		body string
		want string
		ok   bool
	}{
		{"0", "0", true},
		{"-1", "-1", true},
		{"9007199254740993", "9007199254740993", true},
		{"123456789012345678901234567890", "123456789012345678901234567890", true},
		{"-0", "", false},
		{"1.0", "", false},
		{"1e3", "", false},
		{"1E3", "", false},
		{`"5"`, "", false},
		{"null", "", false},
	}
	for _, tt := range tests {
		t.Run(tt.body, func(t *testing.T) {
			if got, ok := value(t, tt.body).Digits(); got != tt.want || ok != tt.ok {
				t.Errorf("Digits of %s = %q, %t, want %q, %t", tt.body, got, ok, tt.want, tt.ok)
			}
		})
	}
}

func TestMissing(t *testing.T) {
	var v payload.Value
	if v.Found() {
		t.Error("the zero Value is found")
	}
	if _, err := v.Text(); problem(err) != "is missing" {
		t.Errorf("Text = %v, want is missing", err)
	}
	if _, err := v.Integer(); problem(err) != "is missing" {
		t.Errorf("Integer = %v, want is missing", err)
	}
	if _, ok := v.Digits(); ok {
		t.Error("Digits of nothing")
	}
}
