package devstack_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
)

// named are servers that are never called: a test that needs one server only
// names the other.
const (
	namedRedis    = "redis://127.0.0.1:1/0"
	namedPostgres = "postgres://127.0.0.1:1/none"
)

func TestTwoStacks(t *testing.T) {
	t.Parallel()
	dirs := []string{filepath.Join(openDir(t), "a"), filepath.Join(openDir(t), "b")}
	stacks := startAll(t, dirs...)
	a, b := stacks[0], stacks[1]
	if a.RedisURL == b.RedisURL || a.DatabaseURL == b.DatabaseURL {
		t.Errorf("two stacks share a port: %s, %s and %s, %s", a.RedisURL, a.DatabaseURL, b.RedisURL, b.DatabaseURL)
	}
	for i, stack := range stacks {
		set(t, stack, "k", "v")
		insert(t, stack, 1)
		family := pids(t, stack)
		for range 2 {
			if err := stack.Close(); err != nil {
				t.Errorf("Close = %v", err)
			}
		}
		checkGone(t, family, dirs[i], stack)
	}
}

// startAll starts a stack in each folder, all at the same time.
func startAll(t *testing.T, dirs ...string) []*devstack.Stack {
	t.Helper()
	stacks := make([]*devstack.Stack, len(dirs))
	errs := make([]error, len(dirs))
	var wg sync.WaitGroup
	for i, dir := range dirs {
		wg.Go(func() {
			stacks[i], errs[i] = devstack.Start(t.Context(), devstack.Options{Dir: dir, Fast: true})
		})
	}
	wg.Wait()
	for i, stack := range stacks {
		if errs[i] == nil {
			t.Cleanup(func() { stack.Close() })
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return stacks
}

func TestKillAndRestart(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Fast: true})
	set(t, stack, "k", "v") // SIGKILL loses only what the kernel has not seen
	insert(t, stack, 42)
	for _, server := range []*devstack.Server{stack.Redis, stack.Postgres} {
		old := server.Pid()
		family := append(children(t, old), old)
		if err := server.Kill(); err != nil {
			t.Fatalf("Kill = %v", err)
		}
		if left := running(t, family); len(left) > 0 || server.Pid() != 0 {
			t.Errorf("after Kill: processes %v run, Pid = %d", left, server.Pid())
		}
		for range 2 { // after a Kill, and while it runs
			if err := server.Restart(t.Context()); err != nil {
				t.Fatalf("Restart = %v", err)
			}
		}
		if pid := server.Pid(); pid == 0 || pid == old {
			t.Errorf("after Restart: Pid = %d, was %d", pid, old)
		}
	}
	if got := get(t, stack, "k"); got != "v" {
		t.Errorf("after Restart: k = %q, want v", got)
	}
	if got := rows(t, stack); got != 1 {
		t.Errorf("after Restart: %d rows, want 1", got)
	}
}

func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{Fast: true})
	client := redisClient(t, stack)
	conn := connect(t, stack)
	insert(t, stack, 1)
	for _, server := range []*devstack.Server{stack.Redis, stack.Postgres} {
		if err := server.Pause(); err != nil {
			t.Fatalf("Pause = %v", err)
		}
	}

	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("a paused Redis answers")
	}
	// The connection is older than the pause, so its backend must be paused too.
	answer := make(chan error, 1)
	go func() { _, err := conn.Exec(t.Context(), "SELECT 1"); answer <- err }()
	select {
	case err := <-answer:
		t.Errorf("a paused Postgres answers: %v", err)
	case <-ctx.Done():
	}

	for _, server := range []*devstack.Server{stack.Redis, stack.Postgres} {
		if err := server.Resume(); err != nil {
			t.Fatalf("Resume = %v", err)
		}
	}
	if err := <-answer; err != nil {
		t.Errorf("the query that waited: %v", err)
	}
	set(t, stack, "k", "v")
}

func TestClosePaused(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	stack := start(t, devstack.Options{Dir: dir, DatabaseURL: namedPostgres})
	family := pids(t, stack)
	if err := stack.Redis.Pause(); err != nil {
		t.Fatal(err)
	}
	if err := stack.Close(); err != nil {
		t.Errorf("Close = %v", err)
	}
	checkGone(t, family, dir, stack)
	if err := stack.Redis.Kill(); err != nil {
		t.Errorf("Kill after Close = %v", err)
	}
	if err := stack.Redis.Restart(t.Context()); err == nil {
		t.Error("Restart after Close succeeded")
	}
}

func TestKeep(t *testing.T) {
	t.Parallel()
	o := devstack.Options{Dir: openDir(t), Keep: true, Fast: true}
	stack := start(t, o)
	set(t, stack, "k", "v")
	insert(t, stack, 1)
	if err := stack.Close(); err != nil {
		t.Fatal(err)
	}

	stack = start(t, o)
	if got := get(t, stack, "k"); got != "v" {
		t.Errorf("k = %q, want v", got)
	}
	if got := rows(t, stack); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}

func TestNamedServers(t *testing.T) {
	t.Parallel()
	stack := start(t, devstack.Options{RedisURL: namedRedis, DatabaseURL: namedPostgres})
	if stack.RedisURL != namedRedis || stack.DatabaseURL != namedPostgres {
		t.Errorf("URLs = %s, %s", stack.RedisURL, stack.DatabaseURL)
	}
	if stack.Redis != nil || stack.Postgres != nil || stack.Volatile {
		t.Error("started a server all the same")
	}
}

// TestStandIn cannot run in parallel: it changes PATH.
func TestStandIn(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	stack := start(t, devstack.Options{DatabaseURL: namedPostgres})
	if !stack.Volatile || stack.Redis != nil {
		t.Errorf("Volatile = %v, Redis = %v, want a stand-in", stack.Volatile, stack.Redis)
	}
	if notes := strings.Join(stack.Notes, " "); !strings.Contains(notes, "keeps nothing") {
		t.Errorf("Notes = %q, want a warning", notes)
	}
	client := redisClient(t, stack)
	if err := client.Set(t.Context(), "k", "v", 200*time.Millisecond).Err(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the key expires", func() bool {
		return errors.Is(client.Get(t.Context(), "k").Err(), redis.Nil)
	})
}

// TestHostileEnvironment cannot run in parallel: it changes the environment.
func TestHostileEnvironment(t *testing.T) {
	t.Setenv("REDIS_URL", "redis://192.0.2.1:6379/0")
	t.Setenv("DATABASE_URL", "postgres://192.0.2.1/production")
	for name, value := range map[string]string{
		"PGHOST": "192.0.2.1", "PGPORT": "1", "PGUSER": "admin", "PGPASSWORD": "secret",
		"PGDATABASE": "production", "PGDATA": "/nonexistent", "PGSSLMODE": "verify-full",
		"PGOPTIONS": "-c search_path=production", "LC_ALL": "xx_XX.UTF-8",
	} {
		t.Setenv(name, value)
	}
	stack := start(t, devstack.Options{Fast: true})
	for _, server := range []string{stack.RedisURL, stack.DatabaseURL} {
		if host := parse(t, server).Hostname(); host != "127.0.0.1" {
			t.Errorf("%s is not on this machine", server)
		}
	}
	if got := parse(t, stack.DatabaseURL).Path; got != "/hookonce" {
		t.Errorf("database = %q, want /hookonce", got)
	}
	set(t, stack, "k", "v")
}

func TestForeignFolder(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	thesis := filepath.Join(dir, "thesis.txt")
	if err := os.WriteFile(thesis, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := devstack.Start(t.Context(), devstack.Options{Dir: dir})
	if err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("Start in a folder with other files = %v, want an error that names it", err)
	}
	if _, err := os.Stat(thesis); err != nil {
		t.Error(err)
	}
}

func TestFolderInUse(t *testing.T) {
	t.Parallel()
	o := devstack.Options{Dir: openDir(t), DatabaseURL: namedPostgres}
	stack := start(t, o)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := devstack.Start(ctx, o); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("Start in a folder in use = %v, want an error that says so", err)
	}
	set(t, stack, "k", "v")
}

// TestRefusedData checks that the error carries what the server said.
func TestRefusedData(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	for _, name := range []string{"devstack.lock", "postgres/PG_VERSION"} {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	_, err := devstack.Start(t.Context(), devstack.Options{Dir: dir, RedisURL: namedRedis})
	if err == nil || !strings.Contains(err.Error(), "postgresql.conf") {
		t.Errorf("Start on bad data = %v, want the server's last words", err)
	}
	checkGone(t, nil, dir, nil)
}

func TestCanceledStart(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond) // in the middle of initdb
	defer cancel()
	if stack, err := devstack.Start(ctx, devstack.Options{Dir: dir}); err == nil {
		t.Errorf("Start succeeded, and Close = %v; want an error", stack.Close())
	}
	checkGone(t, nil, dir, nil)
}
