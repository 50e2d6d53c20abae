package queue_test

import (
	"crypto/sha256"
	"regexp"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/pkg/queue"
)

var hashed = regexp.MustCompile(`^![A-Za-z0-9_-]{43}$`)

func TestTaskID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{"1", "evt_1", "a.b~c:d@e+f=g-h", "00000000-0000-0000-0000-000000000000", strings.Repeat("a", 200)} {
		if got := queue.TaskID(id); got != id {
			t.Errorf("TaskID(%q) = %q, want the same", id, got)
		}
	}
	seen := map[string]string{}
	for _, id := range []string{"a/b", "{a}", "{", "}", "a b", "🙂", "é", "!", "!a", "a!", "a\x00", "", "a%2Fb", "a?b", strings.Repeat("a", 201)} {
		got := queue.TaskID(id)
		if !hashed.MatchString(got) {
			t.Errorf("TaskID(%q) = %q, want ! and 43 characters", id, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("TaskID(%q) = TaskID(%q)", id, other)
		}
		seen[got] = id
	}
	// Who names an event like the task of another gets a task of its own.
	if id := queue.TaskID("a/b"); queue.TaskID(id) == id {
		t.Errorf("TaskID(%q) is the same", id)
	}
}

func FuzzTaskID(f *testing.F) {
	f.Add("evt_1", "a/b", []byte("{}"))
	f.Add("!", "a!b", []byte(""))
	f.Add(queue.TaskID("a/b"), "a/b", []byte("{}"))
	f.Add(queue.ConflictID("evt_1", sha256.Sum256(nil)), "evt_1", []byte(""))
	f.Fuzz(func(t *testing.T, a, b string, body []byte) {
		idA, idB := queue.TaskID(a), queue.TaskID(b)
		if a != b && idA == idB {
			t.Errorf("TaskID(%q) = TaskID(%q) = %q", a, b, idA)
		}
		if strings.ContainsAny(idA, "/{} \r\n") || idA == "" || len(idA) > 200 {
			t.Errorf("TaskID(%q) = %q", a, idA)
		}
		sum := sha256.Sum256(body)
		conflictA, conflictB := queue.ConflictID(a, sum), queue.ConflictID(b, sum)
		if conflictA == idB || conflictA == idA {
			t.Errorf("ConflictID(%q, …) = %q is a task's id", a, conflictA)
		}
		if a != b && conflictA == conflictB {
			t.Errorf("ConflictID(%q, …) = ConflictID(%q, …) = %q", a, b, conflictA)
		}
	})
}
