package stacktest_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

// TestMain lets all tests run in an environment that points to servers which
// must never be used.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"REDIS_URL": "redis://192.0.2.1:6379/0", "DATABASE_URL": "postgres://192.0.2.1/production",
		"PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "admin", "PGDATABASE": "production",
	} {
		os.Setenv(name, value)
	}
	os.Exit(stacktest.Main(m))
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	a, b := stacktest.Postgres(t), stacktest.Postgres(t)
	if strings.Contains(a, "pool_max_conns") {
		t.Errorf("%s limits its pool", a)
	}
	for _, server := range []string{a, b} { // the second would fail if they shared a schema
		conn := connect(t, server)
		if _, err := conn.Exec(t.Context(), "CREATE TABLE events (n int)"); err != nil {
			t.Error(err)
		}
	}
}

func TestPostgresIsDropped(t *testing.T) {
	t.Parallel()
	var server string
	t.Run("user", func(t *testing.T) { server = stacktest.Postgres(t) })
	conn := connect(t, server) // a search path may name a schema that does not exist
	var schema *string
	if err := conn.QueryRow(t.Context(), "SELECT current_schema()").Scan(&schema); err != nil {
		t.Fatal(err)
	}
	if schema != nil {
		t.Errorf("schema %s is left", *schema)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	client := stacktest.RedisClient(t)
	var mine string
	t.Run("Größe/with all kinds of letters, and more of them than fit", func(t *testing.T) {
		mine = stacktest.Source(t)
		fill(t, client, mine)
	})
	if !regexp.MustCompile(`^[a-z0-9][a-z0-9_-]{7,39}$`).MatchString(mine) {
		t.Errorf("Source = %q", mine)
	}
	other := stacktest.Source(t)
	fill(t, client, other)
	t.Run("cleanup", func(t *testing.T) {
		if n := count(t, client, mine); n != 0 {
			t.Errorf("%d keys of %s are left", n, mine)
		}
		if n := count(t, client, other); n != 3 {
			t.Errorf("%d keys of %s are left, want 3", n, other)
		}
	})
}

// fill writes what a queue leaves behind.
func fill(t *testing.T, client *redis.Client, source string) {
	t.Helper()
	for _, key := range []string{"asynq:{%s}:pending", "hookonce:{%s}:due"} {
		if err := client.Set(t.Context(), fmt.Sprintf(key, source), 1, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := client.SAdd(t.Context(), "asynq:queues", source).Err(); err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, client *redis.Client, source string) int {
	t.Helper()
	keys, err := client.Keys(t.Context(), "*:{"+source+"}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	member, err := client.SIsMember(t.Context(), "asynq:queues", source).Result()
	if err != nil {
		t.Fatal(err)
	}
	if member {
		return len(keys) + 1
	}
	return len(keys)
}

func TestPrivate(t *testing.T) {
	t.Parallel()
	var pid int
	t.Run("user", func(t *testing.T) {
		stack := stacktest.Private(t, devstack.Options{DatabaseURL: "postgres://127.0.0.1:1/none"})
		if stack.RedisURL == stacktest.Redis(t) {
			t.Error("Private returned the shared Redis")
		}
		pid = stack.Redis.Pid()
	})
	if err := exec.CommandContext(t.Context(), "kill", "-0", fmt.Sprint(pid)).Run(); err == nil || pid == 0 {
		t.Errorf("process %d is left", pid)
	}
}

// TestMiss cannot run in parallel: it changes CI.
func TestMiss(t *testing.T) {
	impossible := devstack.Options{Dir: foreignDir(t)}
	for ci, want := range map[string]string{"": "skip", "true": "fatal"} {
		t.Setenv("CI", ci)
		tb := &recorder{TB: t}
		done := make(chan struct{})
		go func() { defer close(done); stacktest.Private(tb, impossible) }()
		<-done
		if tb.did != want || !strings.Contains(tb.why, impossible.Dir) {
			t.Errorf("CI=%q: Private = %s: %s, want %s with the reason", ci, tb.did, tb.why, want)
		}
	}
}

func foreignDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// A recorder notes how a test ended.
type recorder struct {
	testing.TB
	did, why string
}

func (r *recorder) Helper() {}

func (r *recorder) Skipf(format string, args ...any) {
	r.did, r.why = "skip", fmt.Sprintf(format, args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.did, r.why = "fatal", fmt.Sprintf(format, args...)
	runtime.Goexit()
}

// TestMainLeavesNothing runs this binary's own tests, in a temporary folder
// that must be empty afterwards.
func TestMainLeavesNothing(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	if err := os.Chmod(filepath.Dir(temp), 0o755); err != nil { // the servers may be another user's
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^(TestPostgres|TestSource)$")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if left, err := filepath.Glob(temp + "/*"); err != nil || len(left) > 0 {
		t.Errorf("left in the temporary folder: %v, %v", left, err)
	}
}

func connect(t *testing.T, server string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}
