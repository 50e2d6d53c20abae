package devstack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/hookonce/hookonce/pkg/devstack"
)

// childEnv makes the test binary a program that starts a stack, prints it, and
// ends as the variable says once its input ends.
const childEnv = "HOOKONCE_DEVSTACK_CHILD"

func TestMain(m *testing.M) {
	if ending := os.Getenv(childEnv); ending != "" {
		child(ending)
	}
	os.Exit(m.Run())
}

// A report is what the child says of its stack.
type report struct {
	RedisURL, DatabaseURL string
	Pids                  []int // the two servers; [run] appends their children
}

func child(ending string) {
	o := devstack.Options{Fast: true, Dir: os.Getenv("CHILD_DIR"), Keep: os.Getenv("CHILD_KEEP") != ""}
	stack, err := devstack.Start(context.Background(), o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	pids := []int{stack.Redis.Pid(), stack.Postgres.Pid()}
	json.NewEncoder(os.Stdout).Encode(report{stack.RedisURL, stack.DatabaseURL, pids})
	io.Copy(io.Discard, os.Stdin)
	if ending == "panic" {
		panic("as told")
	}
	os.Exit(3) // without a Close
}

// A program is a running child.
type program struct {
	cmd   *exec.Cmd
	stdin io.Closer
	temp  string // where its folder is
	report
}

// run returns when the child's stack answers.
func run(t *testing.T, env ...string) *program {
	t.Helper()
	p, stdout := launch(t, env...)
	if err := json.NewDecoder(stdout).Decode(&p.report); err != nil {
		t.Fatalf("child did not start a stack: %v", err)
	}
	for _, pid := range p.Pids {
		p.Pids = append(p.Pids, children(t, pid)...)
	}
	return p
}

func launch(t *testing.T, env ...string) (*program, io.Reader) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), env...)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return &program{cmd: cmd, stdin: stdin}, stdout
}

// TestDeath ends a program in ways that run no deferred call.
func TestDeath(t *testing.T) {
	t.Parallel()
	endings := map[string]func(*program) error{
		"panic":  func(p *program) error { return p.stdin.Close() },
		"exit":   func(p *program) error { return p.stdin.Close() },
		"killed": func(p *program) error { return p.cmd.Process.Kill() },
		"killed while its servers are paused": func(p *program) error {
			for _, pid := range p.Pids {
				syscall.Kill(pid, syscall.SIGSTOP)
			}
			return p.cmd.Process.Kill()
		},
		"killed when its folder is gone": func(p *program) error {
			folders, err := filepath.Glob(p.temp + "/*")
			for _, folder := range folders {
				err = errors.Join(err, os.RemoveAll(folder))
			}
			return errors.Join(err, p.cmd.Process.Kill())
		},
	}
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			temp := openDir(t)
			p := run(t, childEnv+"="+name, "TMPDIR="+temp)
			p.temp = temp
			if servers := p.Pids[:2]; len(running(t, servers)) != len(servers) {
				t.Fatalf("of %v only %v run", servers, running(t, servers))
			}
			if err := end(p); err != nil {
				t.Fatal(err)
			}
			p.cmd.Wait()
			eventually(t, "processes end", func() bool { return len(running(t, p.Pids)) == 0 })
			eventually(t, "folder is removed", func() bool { return !exists(temp + "/*") })
			eventually(t, "watchdog ends", func() bool {
				for _, process := range processes(t) {
					if strings.Contains(process.command, temp+"/hookonce-") {
						return false
					}
				}
				return true
			})
			checkGone(t, nil, temp+"/hookonce-", &devstack.Stack{RedisURL: p.RedisURL, DatabaseURL: p.DatabaseURL})
		})
	}
}

// TestDeathDuringStart kills a program while initdb runs.
func TestDeathDuringStart(t *testing.T) {
	t.Parallel()
	temp := openDir(t)
	p, _ := launch(t, childEnv+"=killed", "TMPDIR="+temp)
	eventually(t, "initdb runs", func() bool { return exists(temp + "/*/initdb.pid") })
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "folder is removed", func() bool { return !exists(temp + "/*") })
	eventually(t, "processes end", func() bool {
		for _, p := range processes(t) {
			if strings.Contains(p.command, temp) {
				return false
			}
		}
		return true
	})
}

func exists(pattern string) bool {
	found, err := filepath.Glob(pattern)
	return err == nil && len(found) > 0
}

// TestDeathWithKeep also kills the watchdog, as an out-of-memory killer may:
// the next Start clears up.
func TestDeathWithKeep(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	p := run(t, childEnv+"=killed", "CHILD_KEEP=1", "CHILD_DIR="+dir)
	old := &devstack.Stack{RedisURL: p.RedisURL, DatabaseURL: p.DatabaseURL}
	set(t, old, "k", "v")
	insert(t, old, 1)
	for _, pid := range children(t, p.cmd.Process.Pid) {
		if !slices.Contains(p.Pids, pid) {
			syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	if err := p.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}

	stack := start(t, devstack.Options{Dir: dir, Keep: true, Fast: true})
	if left := running(t, p.Pids); len(left) > 0 {
		t.Errorf("processes %v are left", left)
	}
	if got := get(t, stack, "k"); got != "v" {
		t.Errorf("k = %q, want v", got)
	}
	if got := rows(t, stack); got != 1 {
		t.Errorf("%d rows, want 1", got)
	}
}
