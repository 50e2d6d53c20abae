package program_test

import (
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

const unsignedDefault = "sources: {default: {verify: none}}\n"

// connect returns a client of the Redis at url, to change it.
func connect(t *testing.T, url string) *redis.Client {
	t.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(o)
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

// refuses starts a program that must not start, and say why.
func (s *stage) refuses(name string, want ...string) {
	s.tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.tb.Fatal(err)
	}
	cmd := exec.Command(exe)
	cmd.Env = s.environ(programVariable + "=" + name)
	defer time.AfterFunc(patience, func() { cmd.Process.Kill() }).Stop()
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState.ExitCode() != 1 {
		s.tb.Errorf("%s ends with %v, want exit code 1:\n%s", name, err, out)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	for _, w := range want {
		if last := lines[len(lines)-1]; !strings.HasPrefix(last, name+": ") || !strings.Contains(last, w) {
			s.tb.Errorf("%s says %q, want %q", name, last, w)
		}
	}
}

// readyz is what a program says of itself, and the code.
func (p *process) readyz(t *testing.T) (string, int) {
	t.Helper()
	resp, err := http.Get(p.ops + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), resp.StatusCode
}

// ready checks that a program is, and says each of texts of its stores.
func (p *process) ready(t *testing.T, texts ...string) {
	t.Helper()
	got, code := p.readyz(t)
	for _, want := range texts {
		if !strings.Contains(got, want) || code != 200 {
			t.Errorf("readyz = %d %s, want %q", code, got, want)
		}
	}
}

// TestStartEvicting is FIELD-REPORTS A43.
func TestStartEvicting(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: stacktest.Postgres(t)})
	s := newStage(t, stack.RedisURL, stack.DatabaseURL, unsignedDefault)
	if err := connect(t, stack.RedisURL).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-lru").Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ingest", "worker"} {
		s.refuses(name, "redis: maxmemory-policy is allkeys-lru: an evicted task is a lost event", "set maxmemory-policy to noeviction", "REDIS_ALLOW_EVICTION=true")
		p := s.start(name, "REDIS_ALLOW_EVICTION=true")
		p.ready(t, ": ok, but ", "allkeys-lru, which REDIS_ALLOW_EVICTION allows")
		if n := strings.Count(p.text(), "allkeys-lru"); n != 1 {
			t.Errorf("%s logs the warning %d times, want once", name, n)
		}
	}
}

// TestStartHidden is FIELD-REPORTS A45.
func TestStartHidden(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: stacktest.Postgres(t)})
	rdb := connect(t, stack.RedisURL)
	for name, rules := range map[string][]any{"noconfig": {"-config"}, "nothing": {"-config", "-info"}} {
		rules = append([]any{"ACL", "SETUSER", name, "on", ">pw", "~*", "&*", "+@all"}, rules...)
		if err := rdb.Do(t.Context(), rules...).Err(); err != nil {
			t.Fatal(err)
		}
	}
	as := func(name string) string {
		return strings.Replace(stack.RedisURL, "redis://", "redis://"+name+":pw@", 1)
	}
	s := newStage(t, as("noconfig"), stack.DatabaseURL, unsignedDefault)
	ingest := s.start("ingest")
	ingest.ready(t, "stores: ok, but ")
	if text, _ := ingest.readyz(t); strings.Contains(text, "CONFIG") || strings.Contains(text, "persists") {
		t.Errorf("readyz: %s, want no word of what is hidden, since INFO tells of an AOF", text)
	}
	s.redisURL = as("nothing")
	s.start("worker").ready(t, "redis: ok, but redis: it does not show that it persists", "REDIS_PERSISTENT=true")
	if text, _ := s.start("worker", "REDIS_PERSISTENT=true").readyz(t); !strings.HasPrefix(text, "redis: ok\n") {
		t.Errorf("readyz with REDIS_PERSISTENT: %s", text)
	}
}

func TestStartReplica(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: stacktest.Postgres(t)})
	s := newStage(t, stack.RedisURL, stack.DatabaseURL, unsignedDefault)
	if err := connect(t, stack.RedisURL).Do(t.Context(), "REPLICAOF", "127.0.0.1", "1").Err(); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"ingest", "worker"} {
		s.refuses(name, "redis: it is a replica, which takes no writes: set REDIS_URL to the master")
	}
}

func TestStartSchema(t *testing.T) {
	t.Parallel()
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), unsignedDefault)
	migrated := s.url
	s.url = stacktest.Postgres(t)
	for _, name := range []string{"ingest", "worker"} {
		s.refuses(name, "postgres: our tables are not there: run hookonce migrate up")
	}
	s.url = migrated
	s.alterVersions(t, `+ 1000`)
	s.start("ingest").ready(t, "its schema is at 100", "finish the update")
	s.alterVersions(t, `- 1000`)
	latest, err := migrations.Latest()
	if err != nil {
		t.Fatal(err)
	}
	if latest > 1 { // else a schema before the latest is none
		s.alterVersions(t, `- 1`)
		s.refuses("worker", "this build needs", "run hookonce migrate up")
	}
}

func (s *stage) alterVersions(t *testing.T, change string) {
	t.Helper()
	if _, err := s.db.Exec(t.Context(), `UPDATE goose_db_version SET version_id = version_id `+change); err != nil {
		t.Fatal(err)
	}
}

// TestStartAway starts without the stores, which come later.
func TestStartAway(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{Fast: true})
	s := newStage(t, stack.RedisURL, stack.DatabaseURL, unsignedDefault)
	if err := stack.Redis.Kill(); err != nil {
		t.Fatal(err)
	}
	s.start("ingest").ready(t, "degraded: Postgres alone")
	s.refuses("worker", "ping redis")
	if err := stack.Redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stack.Postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	s.start("ingest").ready(t, "degraded: Redis alone")
	worker := s.start("worker")
	if text, code := worker.readyz(t); code != 503 || !strings.Contains(text, "\npostgres: store unavailable") {
		t.Errorf("readyz of a worker without Postgres = %d %s", code, text)
	}
	if !strings.Contains(worker.text(), "postgres: cannot be asked") {
		t.Errorf("the worker does not say that Postgres is away:\n%s", worker.text())
	}
	if err := stack.Postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "readyz says what is wrong with Postgres", func() bool {
		text, code := worker.readyz(t)
		return code == 200 && strings.Contains(text, "postgres: ok, but postgres: fsync is off")
	})
}
