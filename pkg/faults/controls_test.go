package faults

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A control shows that the harness can see: a program that is wrong, in a row
// that must find it, or one whose flaw something else makes up for.
type control struct {
	name  string
	naive string // a program of its own
	edits []edit // or ours, with these mistakes
	row   row
	mode  string
	want  string // the invariant that must not hold; "" if all must
	short bool   // part of every run of the tests
}

// An edit spoils one thing in a file of the program.
type edit struct {
	file     string
	old, new string // old is a regular expression that must match once
}

func controls() []control {
	killed := func(s *stage) { s.times(4, "kill -9 of ingest", s.killIngest) }
	return []control{
		{name: "naive 0: look, then insert", naive: "naive 0", want: doubled, row: row{fault: killed}},
		{name: "naive A: lock, run, unlock", naive: "naive A", want: doubled, short: true, row: row{fault: killed}},
		{name: "naive B: insert PROCESSING, run, update", naive: "naive B", want: lost, short: true, row: row{fault: killed}},
		{
			name: "mutant: no fence", mode: "queue", want: doubled,
			edits: []edit{{"pkg/postgres/attempt.go", "(?m)^const guard = `.*`$", "const guard = `source = @source AND event_id = @event_id`"}},
			row:   find("57"),
		},
		{
			name: "mutant: effect and status in two commits", mode: "queue", want: doubled,
			edits: []edit{{"pkg/postgres/attempt.go", `(?m)^\terr := tx\.commit\(ctx, complete, guardArgs\(c\)\)$`,
				"\tvar err error\n\tif tx.conn != nil {\n\t\terr = tx.commit(ctx, named(\"SELECT 1\"), guardArgs(c))\n\t}\n" +
					"\tif err == nil {\n\t\t_, err = s.db.Exec(ctx, complete.sql, complete.args(guardArgs(c))...)\n\t\terr = fencedOr(err)\n\t}"}},
			row: row{fault: func(s *stage) { s.times(5, "kill -9 at the completion", s.killAtClaim) }, bound: time.Minute},
		},
		{
			name: "mutant: no sweeper", mode: "inbox", want: lost,
			edits: []edit{{"pkg/program/worker.go", `(?m)^\t\tsweep\.Run,$`, "\t\tfunc(ctx context.Context) error { _ = sweep; <-ctx.Done(); return nil },"}},
			row:   find("22", 20*time.Second),
		},
		{
			name: "mutant: no take-over of processing", mode: "queue", want: lost,
			edits: []edit{{"pkg/postgres/claim.go", `(?m)^\tOR e\.status = 'processing' AND .*$`, "\tOR false"}},
			row:   row{fault: func(s *stage) { s.times(4, "kill -9 of a worker", func() { s.anyWorker().kill() }) }, bound: 30 * time.Second},
		},
		{
			name: "mutant: blind DEL of the lock (the fence carries it)", mode: "queue", want: "",
			edits: []edit{{"pkg/lock/lock.go", `if redis\.call\("GET", KEYS\[1\]\) == ARGV\[1\] then\n\treturn redis\.call\("DEL"`, "if true then\n\treturn redis.call(\"DEL\""}},
			row:   find("57"),
		},
	}
}

// find returns a row of the table, with a bound of its own.
func find(number string, bound ...time.Duration) row {
	rows := slices.Concat(eventRows(), programRows(), redisRows(), postgresRows(), mixedRows())
	r := *rows[slices.IndexFunc(rows, func(r *row) bool { return r.number == number })]
	if bound != nil {
		r.bound = bound[0]
	}
	return r
}

// play plays the wrong program and returns what was found.
func (c *control) play(t *testing.T, seed uint64, short bool) string {
	t.Helper()
	exe := own(t)
	if c.edits != nil {
		exe = mutant(t, c.edits)
	}
	c.row.naive, c.row.number = c.naive, c.name
	if c.naive != "" {
		c.mode, c.row.bound, c.row.slow, c.row.rate = "queue", 3*time.Second, true, 350
	}
	for try := range controlTries {
		if found, ok := c.attempt(t, exe, seed+uint64(try), short && c.naive == "", try == controlTries-1); ok {
			return found
		}
	}
	return ""
}

// controlTries is how often a control is played until it shows what it must: a
// mistake needs a moment to strike, which no seed can promise.
const controlTries = 3

// attempt plays the program once, and reports whether it showed what it must.
func (c *control) attempt(t *testing.T, exe string, seed uint64, short, last bool) (found string, ok bool) {
	t.Helper()
	t.Run("seed "+sprint(seed), func(t *testing.T) {
		r := c.row
		r.expect = nil
		s, v, res := perform(t, &r, c.mode, seed, exe, short)
		if res.fired < leastFired {
			t.Errorf("fired=%d, want %d or more: the nemesis is dead", res.fired, leastFired)
		}
		t.Log(v.text(), "\n", res.line())
		hit := slices.IndexFunc(v.violations, func(v violation) bool { return v.name == c.want })
		found, ok = "holds", c.want == "" || hit >= 0
		switch {
		case c.want == "" && len(v.violations) > 0:
			t.Errorf("%s, want none", v.text())
		case !ok && last:
			t.Errorf("%q, want %s: the harness does not see it\n%s", v.text(), c.want, strings.Join(s.events, "\n"))
		}
		if hit >= 0 {
			found = fmt.Sprintf("%s=%d", v.violations[hit].name, v.violations[hit].n)
		}
	})
	return found, ok || t.Failed()
}

func root(tb testing.TB) string {
	tb.Helper()
	dir, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		tb.Fatal(err)
	}
	return dir
}

// mutant builds this test binary, and so the programs, with mistakes.
func mutant(tb testing.TB, edits []edit) string {
	tb.Helper()
	dir := tb.TempDir()
	replace := map[string]string{}
	for i, e := range edits {
		name := filepath.Join(root(tb), e.file)
		from := name
		if replace[name] != "" {
			from = replace[name]
		}
		text, err := os.ReadFile(from)
		if err != nil {
			tb.Fatal(err)
		}
		old := regexp.MustCompile(e.old)
		if n := len(old.FindAll(text, -1)); n != 1 {
			tb.Fatalf("%s: %s is there %d times, want 1: the mutation needs to follow the code", e.file, e.old, n)
		}
		replace[name] = filepath.Join(dir, fmt.Sprint(i, ".go"))
		if err := os.WriteFile(replace[name], old.ReplaceAllLiteral(text, []byte(e.new)), 0o600); err != nil {
			tb.Fatal(err)
		}
	}
	return build(tb, replace)
}

// build builds this test binary with some files replaced.
func build(tb testing.TB, replace map[string]string) string {
	tb.Helper()
	data, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		tb.Fatal(err)
	}
	dir := tb.TempDir()
	overlay, exe := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "other.test")
	if err := os.WriteFile(overlay, data, 0o600); err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), "go", "test", "-c", "-vet=off", "-overlay", overlay, "-o", exe, ".")
	if out, err := cmd.CombinedOutput(); err != nil {
		tb.Fatalf("build: %v\n%s", err, out)
	}
	return exe
}
