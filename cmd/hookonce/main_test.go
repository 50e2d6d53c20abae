package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
)

func TestMain(m *testing.M) {
	code := stacktest.Main(m)
	programs.remove()
	os.Exit(code)
}

// programs are built once for all tests. It is a package-level variable since
// tests have nothing else in common that could hold it.
var programs built

type built struct {
	once sync.Once
	dir  string
	err  error
}

// binary returns the path of one of our programs.
func binary(t *testing.T, name string) string {
	t.Helper()
	programs.once.Do(programs.build)
	if programs.err != nil {
		t.Fatal(programs.err)
	}
	return filepath.Join(programs.dir, name)
}

func (b *built) build() {
	if b.dir, b.err = os.MkdirTemp("", "hookonce-programs-"); b.err == nil {
		b.err = goBuild(b.dir, "./cmd/...")
	}
}

func (b *built) remove() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// goBuild builds without -race, which would take the time of another build of
// everything.
func goBuild(dir string, args ...string) error {
	cmd := exec.Command("go", append([]string{"build", "-ldflags=-s -w", "-o", dir + "/"}, args...)...)
	cmd.Dir = filepath.Join("..", "..")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%v: %w\n%s", cmd.Args, err, out)
	}
	return nil
}

// A process is a running program.
type process struct {
	name   string
	cmd    *exec.Cmd
	stdout transcript
	stderr transcript
	done   chan struct{} // closed once it ended
}

// A transcript can be read while the process writes it.
type transcript struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *transcript) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.Write(p)
}

func (o *transcript) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}

// start starts a program in dir. It is killed at the end of the test if it runs
// still, and what it said is shown if the test failed.
func start(t *testing.T, dir string, environ []string, path string, args ...string) *process {
	t.Helper()
	p := &process{name: filepath.Base(path), cmd: exec.Command(path, args...), done: make(chan struct{})}
	p.cmd.Dir, p.cmd.Env = dir, environ
	p.cmd.Stdout, p.cmd.Stderr = io.Writer(&p.stdout), io.Writer(&p.stderr)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("%s %v said:\n%s%s", p.name, args, p.stdout.String(), p.stderr.String())
		}
	})
	return p
}

// wait returns the exit code of a program that must end within the time.
func (p *process) wait(t *testing.T, within time.Duration) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(within):
		t.Fatalf("%s did not end within %s", p.name, within)
	}
	return p.cmd.ProcessState.ExitCode()
}

// stop sends a signal to a program that must then end with code 0.
func (p *process) stop(t *testing.T, sig syscall.Signal, within time.Duration) {
	t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
	if code := p.wait(t, within); code != 0 {
		t.Errorf("%s: exit code %d after %s, want 0", p.name, code, sig)
	}
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// eventually waits for something that another goroutine or process does.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	for deadline := time.Now().Add(40 * time.Second); !done(); time.Sleep(25 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 40 s: %s", what)
		}
	}
}

// openDir is a folder that an unprivileged user can get to, who runs the
// servers of devstack if the test runs as root.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// bare is the environment of a process without anything that sets one of our
// programs.
func bare(set ...string) []string {
	var environ []string
	for _, name := range []string{"PATH", "HOME", "GOCACHE"} {
		if value, ok := os.LookupEnv(name); ok {
			environ = append(environ, name+"="+value)
		}
	}
	return append(environ, set...)
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return name
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// contains reports what of want is missing in text.
func contains(t *testing.T, text string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(text, w) {
			t.Errorf("%q is missing in:\n%s", w, text)
		}
	}
}
