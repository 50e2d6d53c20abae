package payload_test

import (
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
)

func TestParsePointer(t *testing.T) {
	tests := []struct{ pointer, problem string }{
		{"", ""},
		{"/", ""},
		{"/id", ""},
		{"/data/object/id", ""},
		{"/a~1b/m~0n/0", ""},
		{"/~01", ""},
		{"/a b/\"/🪝", ""},
		{"//", ""},
		{"id", "does not start with a slash"},
		{"#/id", "does not start with a slash"},
		{"$.id", "does not start with a slash"},
		{"/a~", "has a ~ without 0 or 1 after it"},
		{"/a~2", "has a ~ without 0 or 1 after it"},
		{"/~~0", "has a ~ without 0 or 1 after it"},
		{"/~/0", "has a ~ without 0 or 1 after it"},
		{"/\xff", "is not valid UTF-8"},
	}
	for _, tt := range tests {
		t.Run(tt.pointer, func(t *testing.T) {
			p, err := payload.ParsePointer(tt.pointer)
			if tt.problem == "" {
				if err != nil || p.String() != tt.pointer {
					t.Errorf("ParsePointer(%q) = %q, %v", tt.pointer, p, err)
				}
			} else if err == nil || !strings.HasSuffix(err.Error(), tt.problem) {
				t.Errorf("ParsePointer(%q) = %v, want %q", tt.pointer, err, tt.problem)
			}
		})
	}
}
