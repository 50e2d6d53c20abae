package main

import (
	"encoding/json"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/doctor"
	"github.com/hookonce/hookonce/pkg/queue"
)

// healthyStack is one that nothing is wrong with but that its schema is missing.
func healthyStack(t *testing.T) []string {
	t.Helper()
	stack := stacktest.Private(t, devstack.Options{})
	rdb, err := queue.Dial(stack.RedisURL, queue.Profile{Pool: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for name, value := range map[string]string{"maxmemory": "256mb", "appendfsync": "always"} {
		if err := rdb.ConfigSet(t.Context(), name, value).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := rdb.Do(t.Context(), "CONFIG", "SET", "requirepass", marker).Err(); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(stack.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.UserPassword("", marker)
	return []string{"REDIS_URL=" + u.String(), "DATABASE_URL=" + withPassword(t, stack.DatabaseURL)}
}

// findings runs the doctor, and returns those that are not ok.
func findings(t *testing.T, environ []string) ([]doctor.Finding, error) {
	t.Helper()
	out, errOut, err := call(t, environ, "doctor", "-o", "json")
	for line := range strings.Lines(errOut) {
		if !strings.HasPrefix(line, "using ") { // what it takes from hookonce dev
			t.Errorf("doctor says %q", line)
		}
	}
	var all, wrong []doctor.Finding
	if json.Unmarshal([]byte(out), &all) != nil || len(all) == 0 {
		t.Fatalf("doctor prints no list: %s, %v", out, err)
	}
	for _, f := range all {
		if f.Level != doctor.OK {
			wrong = append(wrong, f)
		}
	}
	return wrong, err
}

func TestDoctor(t *testing.T) {
	t.Parallel()
	environ := healthyStack(t)
	got, err := findings(t, environ)
	if err == nil || err.Error() != "doctor: errors found: 1" || len(got) != 1 || !got[0].Refuses || got[0].Fix != "run hookonce migrate up" {
		t.Errorf("without migrations: %+v, %v", got, err)
	}
	out, _, err := call(t, environ, "doctor")
	if err == nil {
		t.Error("doctor prints an error in a table, and succeeds")
	}
	contains(t, out, "LEVEL  SUBJECT   FINDING\n", "\nok     redis     ", "\nerror  postgres  our tables are not there\n                 → run hookonce migrate up\n")

	must(t, environ, "migrate", "up")
	if got, err := findings(t, environ); got != nil || err != nil {
		t.Errorf("with migrations: %+v, %v, want nothing", got, err)
	}
	got, err = findings(t, append(environ, "HOOKONCE_CONFIG=/not/there.yaml"))
	if err != nil || len(got) != 1 || got[0].Level != doctor.Note || !strings.Contains(got[0].Text, "/not/there.yaml") {
		t.Errorf("without the sources file: %+v, %v, want a note", got, err)
	}
}

// TestDoctorDev is not parallel, since it changes the working folder.
func TestDoctorDev(t *testing.T) {
	environ := healthyStack(t)
	must(t, environ, "migrate", "up")
	t.Chdir(t.TempDir())
	write(t, "hookonce.yaml", "sources: {elsewhere: {provider: github, secrets: [\"${NOT_SET_HERE}\"]}}\n")
	file := write(t, filepath.Join(t.TempDir(), "dev.yaml"), "sources: {mine: {verify: none, id: {json: /i}, type: {json: /t}}}")
	write(t, devEnvFile, strings.Join(environ, "\n")+"\nHOOKONCE_CONFIG="+file+"\n")
	if got, err := findings(t, nil); got != nil || err != nil {
		t.Errorf("beside hookonce dev: %+v, %v, want nothing", got, err)
	}
	if got, err := findings(t, environ); err != nil || len(got) != 1 || !strings.Contains(got[0].Text, "NOT_SET_HERE") {
		t.Errorf("of stores that are named: %+v, %v, want the note on hookonce.yaml", got, err)
	}
}

// TestDoctorAway asks for what is not there, or does not let us in.
func TestDoctorAway(t *testing.T) {
	t.Parallel()
	database := stacktest.Postgres(t)
	if _, err := migrations.Up(t.Context(), database); err != nil {
		t.Fatal(err)
	}
	away := []string{"REDIS_URL=redis://:" + marker + "@127.0.0.1:1", "DATABASE_URL=postgres://u:" + marker + "@127.0.0.1:1/none"}
	got, err := findings(t, away)
	if err == nil || len(got) != 2 || got[0].Subject != "redis" || got[1].Subject != "postgres" || !strings.Contains(got[1].Text, "refused") {
		t.Errorf("without both: %+v, %v", got, err)
	}
	refuses(t, []string{"REDIS_URL=redis://:" + marker + "@127.0.0.1:x", "DATABASE_URL=" + database}, "REDIS_URL", "doctor")
	refuses(t, append(away, "INGEST_ACK=both"), "INGEST_ACK", "doctor")
	refuses(t, away, "must be json or table", "doctor", "-o", "yaml")
	refuses(t, nil, "REDIS_URL is not set", "doctor")
	refuses(t, away[:1], "DATABASE_URL is not set", "doctor")
}
