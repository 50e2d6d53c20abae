package main

import (
	"bytes"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/redis/go-redis/v9"
)

// A dev is a running hookonce dev.
type dev struct {
	*process
	dir, temp string
	envFile   string
	environ   []string
	addresses map[string]string
}

// startDev returns when hookonce dev is ready, which is when it has written its
// addresses.
func startDev(t *testing.T, dir string, environ []string, args ...string) *dev {
	t.Helper()
	d := &dev{dir: dir, temp: openDir(t), envFile: filepath.Join(dir, ".hookonce", "dev.env"), addresses: map[string]string{}}
	for i, arg := range args {
		if arg == "--env-file" {
			d.envFile = filepath.Join(dir, args[i+1])
		}
	}
	d.environ = append(environ, "TMPDIR="+d.temp)
	d.process = start(t, dir, d.environ, binary(t, "hookonce"), append([]string{"dev"}, args...)...)
	eventually(t, "hookonce dev is ready", func() bool {
		return strings.Contains(d.stdout.String(), "events list\n") || d.ended()
	})
	if d.ended() {
		t.Fatal("hookonce dev ended")
	}
	for line := range strings.Lines(read(t, d.envFile)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		d.addresses[name] = value
	}
	return d
}

// sh runs a line as pasted into a shell.
func (d *dev) sh(t *testing.T, line string) string {
	t.Helper()
	p := start(t, d.dir, bare(), "/bin/sh", "-c", line)
	if code := p.wait(t, 30*time.Second); code != 0 {
		t.Errorf("%s: exit code %d: %s%s", line, code, p.stdout.String(), p.stderr.String())
	}
	return p.stdout.String()
}

// pasted returns the lines that it printed to be pasted.
func (d *dev) pasted(t *testing.T) []string {
	t.Helper()
	_, text, _ := strings.Cut(d.stdout.String(), "\nTry it:\n")
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, strings.TrimSpace(line))
	}
	if len(lines) != 3 {
		t.Fatalf("%d lines to paste, want 3: %q", len(lines), lines)
	}
	return lines
}

// interrupt presses Ctrl-C, and checks that nothing is left.
func (d *dev) interrupt(t *testing.T) {
	t.Helper()
	d.stop(t, syscall.SIGINT, 15*time.Second)
	if _, err := os.Stat(d.envFile); !os.IsNotExist(err) {
		t.Errorf("%s is left: %v", d.envFile, err)
	}
	checkNothingLeft(t, d.temp)
	for name, address := range d.addresses {
		if u, err := url.Parse(address); err == nil && u.Host != "" {
			if conn, err := net.Dial("tcp", u.Host); err == nil {
				conn.Close()
				t.Errorf("%s still listens", name)
			}
		}
	}
}

// checkNothingLeft looks for files in a folder for temporary ones, and for
// processes that name it.
func checkNothingLeft(t *testing.T, temp string) {
	t.Helper()
	if left, _ := filepath.Glob(temp + "/*"); len(left) > 0 {
		t.Errorf("files are left: %v", left)
	}
	table, err := exec.Command("/bin/ps", "-A", "-ww", "-o", "pid=,stat=,command=").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); strings.Contains(line, temp) && !strings.HasPrefix(fields[1], "Z") {
			t.Errorf("a process is left: %s", line)
		}
	}
}

// trap is a server that counts who comes. Nobody should.
func trap(t *testing.T) (addr string, touched *atomic.Int32) {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	touched = new(atomic.Int32)
	go func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			touched.Add(1)
			conn.Close()
		}
	}()
	return ln.Addr().String(), touched
}

func get(t *testing.T, address string) int {
	t.Helper()
	client := http.Client{Timeout: 5 * time.Second}
	resp, err := client.Get(address)
	if err != nil {
		t.Error(err)
		return 0
	}
	resp.Body.Close()
	return resp.StatusCode
}

// TestDev runs it where everything around is hostile: the environment names
// servers of others, a sources file for production lies there, and the port is
// taken.
func TestDev(t *testing.T) {
	t.Parallel()
	if ln, err := net.Listen("tcp", devAddr); err == nil { // else somebody has it, which is as good
		defer ln.Close()
	}
	address, touched := trap(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "hookonce.yaml"), read(t, repository(t, "hookonce.yaml")))
	d := startDev(t, dir, bare("DATABASE_URL=postgres://u:p@"+address+"/db", "REDIS_URL=redis://"+address, "PGHOST="+address))

	contains(t, d.stderr.String(), devAddr+" is taken: ingest listens on another port\n")
	if strings.HasSuffix(d.addresses["INGEST_URL"], ":8080") {
		t.Errorf("INGEST_URL is %s, which is taken", d.addresses["INGEST_URL"])
	}
	d.checkAnswers(t)
	for name, value := range d.addresses {
		contains(t, d.stdout.String(), name+"="+value+"\n")
	}

	lines := d.pasted(t)
	if _, err := exec.LookPath("curl"); err == nil {
		contains(t, d.sh(t, lines[0]), "200 OK", `"status":"accepted"`, `"event_id":"evt_1"`)
	}
	if out := d.sh(t, lines[1]); strings.Count(out, "\n") != 5 || strings.Count(out, `"accepted"`) != 1 {
		t.Errorf("%s prints %s", lines[1], out)
	}
	eventually(t, "the events are listed as completed", func() bool {
		out := d.sh(t, lines[2])
		return strings.Count(out, "completed") == strings.Count(out, "default ") && strings.Count(out, "default ") >= 1
	})
	contains(t, d.sh(t, lines[2]), "payment.succeeded")

	d.interrupt(t)
	if n := touched.Load(); n > 0 {
		t.Errorf("servers named by DATABASE_URL and REDIS_URL were touched %d times", n)
	}
}

// checkAnswers asks everything that it says is there.
func (d *dev) checkAnswers(t *testing.T) {
	t.Helper()
	for name, path := range map[string]string{"INGEST_OPS_URL": "/readyz", "WORKER_OPS_URL": "/readyz", "DASHBOARD_URL": "/"} {
		if code := get(t, d.addresses[name]+path); code != http.StatusOK {
			t.Errorf("%s%s answers %d", name, path, code)
		}
	}
	if code := get(t, d.addresses["INGEST_URL"]+"/webhooks"); code != http.StatusMethodNotAllowed {
		t.Errorf("GET INGEST_URL/webhooks answers %d", code)
	}
	db, err := pgx.Connect(t.Context(), d.addresses["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close(t.Context())
	options, err := redis.ParseURL(d.addresses["REDIS_URL"])
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(d.envFile); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%s: %v, %v, want it for its owner only", d.envFile, info.Mode(), err)
	}
}

// TestDevKeep runs it twice on the same data, with a sources file and another
// file for the addresses.
func TestDevKeep(t *testing.T) {
	t.Parallel()
	dir := openDir(t)
	write(t, filepath.Join(dir, "my.yaml"), `sources: {mine: {provider: github, secrets: ["${MY_SECRET}"]}}`)
	environ := bare("HOOKONCE_CONFIG=my.yaml", "MY_SECRET=x", "INGEST_ADDR=127.0.0.1:0")
	for i := range 2 {
		d := startDev(t, dir, environ, "--keep", "--env-file", "somewhere/else.env")
		if want := filepath.Join(dir, "my.yaml"); d.addresses["HOOKONCE_CONFIG"] != want {
			t.Errorf("HOOKONCE_CONFIG is %s, want %s", d.addresses["HOOKONCE_CONFIG"], want)
		}
		if got := get(t, d.addresses["INGEST_URL"]+"/webhooks/other"); got != http.StatusNotFound && got != http.StatusMethodNotAllowed {
			t.Errorf("the source other answers %d", got)
		}
		send, list := d.pasted(t)[1], d.pasted(t)[2]
		contains(t, d.sh(t, "MY_SECRET=x "+send+fmt.Sprintf(" --source mine --id kept-%d", i)), `"accepted"`)
		eventually(t, "the events of all runs are completed", func() bool {
			return strings.Count(d.sh(t, list), "completed") == i+1
		})
		d.interrupt(t)
		if _, err := os.Stat(filepath.Join(dir, ".hookonce", "data", "postgres")); err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".hookonce", "data", "*.pid")); len(left) > 0 {
		t.Errorf("%v are left", left)
	}
}

// TestDevInterruptedEarly stops it while it starts.
func TestDevInterruptedEarly(t *testing.T) {
	t.Parallel()
	temp := openDir(t)
	p := start(t, t.TempDir(), bare("TMPDIR="+temp), binary(t, "hookonce"), "dev")
	eventually(t, "its servers start", func() bool {
		found, _ := filepath.Glob(temp + "/*/*.pid")
		return len(found) > 0
	})
	if err := p.cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	p.wait(t, 15*time.Second)
	checkNothingLeft(t, temp)
}

// TestDevRefuses starts it with what cannot work: it says so, and leaves nothing.
func TestDevRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bad.yaml"), "sources: {}\n")
	temp := openDir(t)
	p := start(t, dir, bare("TMPDIR="+temp, "HOOKONCE_CONFIG=bad.yaml", "INGEST_ADDR=127.0.0.1:0"), binary(t, "hookonce"), "dev")
	if code := p.wait(t, 40*time.Second); code != 1 {
		t.Errorf("exit code %d, want 1", code)
	}
	contains(t, p.stderr.String(), "hookonce: ", "bad.yaml", "no sources")
	checkNothingLeft(t, temp)
	if found, _ := filepath.Glob(filepath.Join(dir, ".hookonce", "*")); len(found) > 0 {
		t.Errorf("%v are left", found)
	}
}

// TestDevEnvFile checks what the screen shows and what the file has, and that
// a run does not remove the file of another.
func TestDevEnvFile(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	const address = "postgres://user:" + marker + "@db/hookonce"
	d := &devRun{console: &console{stdout: &out}, envFile: filepath.Join(t.TempDir(), "dev.env")}
	first := &theater{devRun: d, addresses: map[string]string{"DATABASE_URL": address, "INGEST_URL": "http://127.0.0.1:1"}}
	second := &theater{devRun: d, addresses: map[string]string{"INGEST_URL": "http://127.0.0.1:2"}}
	removeFirst, err := first.writeEnv()
	if err != nil {
		t.Fatal(err)
	}
	contains(t, read(t, d.envFile), "DATABASE_URL="+address+"\nINGEST_URL=http://127.0.0.1:1\n")
	if strings.Contains(out.String(), marker) || !strings.Contains(out.String(), "DATABASE_URL=postgres://user:xxxxx@db/hookonce\n") {
		t.Errorf("prints %s", out.String())
	}
	removeSecond, err := second.writeEnv()
	if err != nil {
		t.Fatal(err)
	}
	if err := removeFirst(); err != nil {
		t.Error(err)
	}
	contains(t, read(t, d.envFile), "INGEST_URL=http://127.0.0.1:2\n")
	if err := removeSecond(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(d.envFile); !os.IsNotExist(err) {
		t.Errorf("the file is left: %v", err)
	}
}
