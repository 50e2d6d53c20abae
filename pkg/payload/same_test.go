package payload_test

import (
	"testing"

	"github.com/hookonce/hookonce/pkg/payload"
)

func TestSame(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, a, b string
		but        []string
		want       bool
	}{
		{"the same", `{"a":1}`, `{"a":1}`, []string{"/n"}, true},
		{"a counter", `{"a":1,"n":2,"z":0}`, `{"a":1,"n":10,"z":0}`, []string{"/n"}, true},
		{"a counter of another kind", `{"n":2}`, `{"n":[null,{"x":1}]}`, []string{"/n"}, true},
		{"a counter and more", `{"a":1,"n":2}`, `{"a":2,"n":3}`, []string{"/n"}, false},
		{"a counter elsewhere", `{"a":{"n":2}}`, `{"a":{"n":3}}`, []string{"/n"}, false},
		{"a counter deep inside", `{"a":[{"n":2}]}`, `{"a":[{"n":3}]}`, []string{"/a/0/n"}, true},
		{"two counters", `{"n":1,"m":1}`, `{"n":2,"m":2}`, []string{"/m", "/n"}, true},
		{"one of two", `{"n":1,"m":1}`, `{"n":2,"m":2}`, []string{"/m"}, false},
		{"one inside of another", `{"n":{"m":1,"k":1}}`, `{"n":{"m":2,"k":2}}`, []string{"/n/m", "/n"}, true},
		{"the whole", `{"n":1}`, `[]`, []string{""}, true},
		{"only one has it", `{"a":1,"n":2}`, `{"a":1}`, []string{"/n"}, false},
		{"what one has moved", `{"n":12,"a":3}`, `{"n":1,"a":23}`, []string{"/n"}, false},
		{"other white space", `{"n":1}`, `{"n": 1}`, []string{"/n"}, false},
		{"around the document", " {\"n\":1}\n", " {\"n\":2}\n", []string{"/n"}, true},
		{"no JSON", `{"n":1`, `{"n":1`, []string{"/n"}, false},
		{"nothing", ``, ``, []string{"/n"}, false},
		{"key twice", `{"n":1,"n":2}`, `{"n":1,"n":2}`, []string{"/n"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			for _, pair := range [][2]string{{tt.a, tt.b}, {tt.b, tt.a}} {
				if got := payload.Same([]byte(pair[0]), []byte(pair[1]), at(t, tt.but...)...); got != tt.want {
					t.Errorf("Same(%s, %s, %q) = %t", pair[0], pair[1], tt.but, got)
				}
			}
		})
	}
}
