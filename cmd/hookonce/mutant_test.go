package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// A mutation spoils one thing in a file of the program.
type mutation struct {
	file     string
	old, new string // new may use the groups of old, a regular expression that must match once
}

// TestDevOnce tells the story as it is, and proves that it can fail: it is told
// by programs that lack what it is about.
func TestDevOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		mutations []mutation
		want      string // a regular expression for the one promise that is broken
	}{
		{"as it is", nil, ""},
		{"no fence", []mutation{
			{"pkg/postgres/attempt.go", "(?m)^const guard = `.*`$", "const guard = `source = @source AND event_id = @event_id`"},
		}, `^stalled-\S+: 2 effects, want 1$`},
		{"lock, run, unlock", []mutation{
			{"pkg/postgres/claim.go", `(?s)const claimable = .*?\n\n`, "const claimable = `true`\n\n"},
			{"pkg/postgres/claim.go", `(?m)^([ \t]+)next_attempt_at = NULL,$`, "${1}next_attempt_at = NULL,${1}completed_at = NULL,"},
		}, `^forgotten-\S+: [2-9] effects, want 1$`},
	}
	stories := make([]*story, len(tests))
	for i, tt := range tests { // they mostly wait, so they are told at the same time
		stories[i] = tell(t, tt.mutations)
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { stories[i].check(t, tt.want) })
	}
}

// A story is a running hookonce dev --once.
type story struct {
	*process
	temp string
}

func tell(t *testing.T, mutations []mutation) *story {
	t.Helper()
	path := binary(t, "hookonce")
	if mutations != nil {
		dir := t.TempDir()
		if err := goBuild(dir, "-overlay", overlay(t, mutations), "./cmd/hookonce"); err != nil {
			t.Fatal(err)
		}
		path = filepath.Join(dir, "hookonce")
	}
	temp := openDir(t)
	return &story{start(t, t.TempDir(), bare("TMPDIR="+temp), path, "dev", "--once"), temp}
}

func (s *story) check(t *testing.T, want string) {
	t.Helper()
	code := s.wait(t, 90*time.Second)
	checkNothingLeft(t, s.temp)
	_, broken, failed := strings.Cut(s.stderr.String(), "hookonce: not as promised:\n")
	if broken = strings.TrimSpace(broken); want == "" {
		if code != 0 || failed || !strings.HasSuffix(s.stdout.String(), "\nAll as promised.\n") {
			t.Errorf("exit code %d, want 0 and that all is as promised:\n%s", code, broken)
		}
		return
	}
	if code != 1 || !regexp.MustCompile(want).MatchString(broken) {
		t.Errorf("exit code %d, want 1 and just the broken promise %s:\n%s", code, want, broken)
	}
}

// overlay returns a file that makes go build see the mutated files.
func overlay(t *testing.T, mutations []mutation) string {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	texts := map[string]string{}
	for _, m := range mutations {
		name := filepath.Join(root, m.file)
		if texts[name] == "" {
			texts[name] = read(t, name)
		}
		old := regexp.MustCompile(m.old)
		if n := len(old.FindAllString(texts[name], -1)); n != 1 {
			t.Fatalf("%s: %s is there %d times, want 1: the mutation needs to follow the code", m.file, m.old, n)
		}
		texts[name] = old.ReplaceAllString(texts[name], m.new)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for name, text := range texts {
		replace[name] = write(t, filepath.Join(dir, filepath.Base(name)), text)
	}
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
