package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A part is a program that is measured, in a process of its own.
type part struct {
	name  string
	addr  string // where it takes deliveries
	cmd   *exec.Cmd
	stdin io.Closer // it ends when this closes, so it outlives nobody
	done  chan struct{}
	log   string
	soft  bool // ask it to end, so that it writes its profile
}

// Announce tells the one who started this part where it listens.
func Announce(w io.Writer, public net.Addr) { fmt.Fprintln(w, "listening", public) }

// profileVariable names the file for a part's CPU profile.
const profileVariable = "HOOKONCE_BENCH_PROFILE"

// BePart is for the process of a part to call first. It ends the process when
// the one who started it is gone. end writes the profile, if there is to be one.
func BePart(getenv func(string) string) (end func(), err error) {
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	name := getenv(profileVariable)
	if name == "" {
		return func() {}, nil
	}
	f, err := os.Create(name)
	if err != nil {
		return nil, err
	}
	if err := pprof.StartCPUProfile(f); err != nil {
		return nil, err
	}
	return func() { pprof.StopCPUProfile(); f.Close() }, nil
}

// start runs a part and returns once it listens.
func (r *rig) start(ctx context.Context, name string, env ...string) (*part, error) {
	p := &part{name: name, done: make(chan struct{}), soft: r.Profile != ""}
	args := append(append([]string(nil), r.Self[1:]...), name)
	p.cmd = exec.Command(r.Self[0], args...) //nolint:noctx // it is ended by hand, and by its standard input
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.cmd.Env = append(r.environ(), env...)
	if r.Profile != "" {
		file := fmt.Sprintf("%s-%d.prof", name, time.Now().UnixMilli())
		p.cmd.Env = append(p.cmd.Env, profileVariable+"="+filepath.Join(r.Profile, file))
	}
	log, err := os.CreateTemp(r.dir, name+"-*.log")
	if err != nil {
		return nil, err
	}
	defer log.Close()
	p.cmd.Stderr, p.log = log, log.Name()
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	return p, p.await(ctx, stdout)
}

// environ is what every part sees: the stores, and nothing of ours.
func (r *rig) environ() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + os.Getenv("HOME"), "TMPDIR=" + r.dir,
		"REDIS_URL=" + r.stack.RedisURL, "DATABASE_URL=" + r.stack.DatabaseURL,
		"INGEST_ADDR=127.0.0.1:0", "OPS_ADDR=127.0.0.1:0", "HOOKONCE_CONFIG=" + r.sourcesFile(1, atOnce),
		secretVariable + "=" + secret,
	}
}

const (
	secretVariable = "BENCH_SECRET"
	secret         = "whsec_bench"
)

func (p *part) await(ctx context.Context, stdout io.Reader) error {
	lines := bufio.NewReader(stdout)
	heard := make(chan string, 1)
	var once sync.Once
	go func() {
		for {
			line, err := lines.ReadString('\n')
			if addr, ok := strings.CutPrefix(line, "listening "); ok {
				once.Do(func() { heard <- strings.TrimSpace(addr) })
			}
			if err != nil {
				break
			}
		}
		_ = p.cmd.Wait()
		close(p.done)
	}()
	select {
	case p.addr = <-heard:
		return nil
	case <-p.done:
		return fmt.Errorf("%s ended at once: %s", p.name, p.lastWords())
	case <-time.After(20 * time.Second):
		p.stop()
		return fmt.Errorf("%s does not listen: %s", p.name, p.lastWords())
	case <-ctx.Done():
		p.stop()
		return context.Cause(ctx)
	}
}

// lastWords is the end of what it logged.
func (p *part) lastWords() string {
	const enough = 2000
	text, err := os.ReadFile(p.log)
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-enough):])
}

func (p *part) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

func (p *part) pid() int { return p.cmd.Process.Pid }

// stop ends the part and waits for it.
func (p *part) stop() {
	if p.soft {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-p.done:
		case <-time.After(15 * time.Second):
		}
	}
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return
	}
	<-p.done
	_ = p.stdin.Close()
}

// atOnce is how many attempts the worker makes at once for a source: four for
// each core that Postgres has. With more it drains little faster, since they take
// turns on the cores, and so does everybody who commits beside them. It is what
// README advises for handlers that wait for nothing else.
var atOnce = 4 * runtime.NumCPU()

// sources writes the sources file that has n sources, and returns the variable
// that names it.
func (r *rig) sources(n int) (string, error) { return r.sourcesAt(n, atOnce) }

// sourcesAt is sources, with so many attempts at once for each.
func (r *rig) sourcesAt(n, concurrency int) (string, error) {
	var b strings.Builder
	b.WriteString("sources:\n")
	for i := range n {
		fmt.Fprintf(&b, "  %s: {provider: stripe, concurrency: %d, secrets: [\"${%s}\"], handlers: [{match: \"*\", handler: payments, amount: {json: /data/object/amount}}]}\n",
			sourceName(i), concurrency, secretVariable)
	}
	name := r.sourcesFile(n, concurrency)
	return "HOOKONCE_CONFIG=" + name, os.WriteFile(name, []byte(b.String()), 0o600)
}

func (r *rig) sourcesFile(n, concurrency int) string {
	return r.path(fmt.Sprintf("sources-%d-at-%d.yaml", n, concurrency))
}

// sourceName is the name of the nth source, from 0.
func sourceName(n int) string {
	if n == 0 {
		return "main"
	}
	return fmt.Sprintf("s%02d", n)
}

func path(source string) string { return "/webhooks/" + source }
