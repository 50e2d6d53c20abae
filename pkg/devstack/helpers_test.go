package devstack_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
)

// start starts a stack that is closed after the test.
func start(t *testing.T, o devstack.Options) *devstack.Stack {
	t.Helper()
	stack, err := devstack.Start(t.Context(), o)
	if err != nil {
		t.Fatalf("Start(%+v) = %v", o, err)
	}
	t.Cleanup(func() {
		if err := stack.Close(); err != nil {
			t.Errorf("Close = %v", err)
		}
	})
	return stack
}

// openDir is a folder that an unprivileged user can get to, who runs the
// servers if the test runs as root.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

func redisClient(t *testing.T, stack *devstack.Stack) *redis.Client {
	t.Helper()
	options, err := redis.ParseURL(stack.RedisURL)
	if err != nil {
		t.Fatal(err)
	}
	options.ContextTimeoutEnabled = true
	client := redis.NewClient(options)
	t.Cleanup(func() { client.Close() })
	return client
}

func set(t *testing.T, stack *devstack.Stack, key, value string) {
	t.Helper()
	if err := redisClient(t, stack).Set(t.Context(), key, value, 0).Err(); err != nil {
		t.Fatal(err)
	}
}

func get(t *testing.T, stack *devstack.Stack, key string) string {
	t.Helper()
	value, err := redisClient(t, stack).Get(t.Context(), key).Result()
	if err != nil {
		t.Error(err)
	}
	return value
}

func connect(t *testing.T, stack *devstack.Stack) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), stack.DatabaseURL)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close(context.Background()) })
	return conn
}

func insert(t *testing.T, stack *devstack.Stack, n int) {
	t.Helper()
	conn := connect(t, stack)
	if _, err := conn.Exec(t.Context(), "CREATE TABLE IF NOT EXISTS kept (n int)"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Exec(t.Context(), "INSERT INTO kept VALUES ($1)", n); err != nil {
		t.Fatal(err)
	}
}

func rows(t *testing.T, stack *devstack.Stack) int {
	t.Helper()
	var n int
	if err := connect(t, stack).QueryRow(t.Context(), "SELECT count(*) FROM kept").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// pids returns all processes of a stack.
func pids(t *testing.T, stack *devstack.Stack) []int {
	t.Helper()
	var all []int
	for _, server := range []*devstack.Server{stack.Redis, stack.Postgres} {
		if server != nil {
			all = append(append(all, server.Pid()), children(t, server.Pid())...)
		}
	}
	return all
}

func children(t *testing.T, parent int) []int {
	t.Helper()
	var found []int
	for pid, p := range processes(t) {
		if p.parent == parent {
			found = append(found, pid)
		}
	}
	return found
}

func running(t *testing.T, pids []int) []int {
	t.Helper()
	table := processes(t)
	var left []int
	for _, pid := range pids {
		if _, ok := table[pid]; ok {
			left = append(left, pid)
		}
	}
	return left
}

type process struct {
	parent  int
	command string
}

// processes asks ps, so that the tests do not trust the table under test. It
// leaves out what has ended and waits for its parent to notice.
func processes(t *testing.T) map[int]process {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "/bin/ps", "-A", "-ww", "-o", "pid=,ppid=,stat=,command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	table := make(map[int]process)
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || strings.HasPrefix(fields[2], "Z") {
			continue
		}
		pid, _ := strconv.Atoi(fields[0])
		parent, _ := strconv.Atoi(fields[1])
		table[pid] = process{parent, line}
	}
	return table
}

// checkGone checks that no process, no folder and no port is left of a stack.
func checkGone(t *testing.T, pids []int, dir string, stack *devstack.Stack) {
	t.Helper()
	if left := running(t, pids); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	for pid, p := range processes(t) {
		if strings.Contains(p.command, dir) {
			t.Errorf("process %d is left: %s", pid, p.command)
		}
	}
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("folder %s is left: %v", dir, err)
	}
	if stack == nil {
		return
	}
	for _, server := range []string{stack.RedisURL, stack.DatabaseURL} {
		if conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", parse(t, server).Host); err == nil {
			conn.Close()
			t.Errorf("%s still listens", server)
		}
	}
}

func parse(t *testing.T, raw string) *url.URL {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// eventually waits for something that another process does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !done(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 10 seconds: %s", what)
		}
	}
}
