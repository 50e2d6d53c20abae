package faults

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A slot keeps one process of a program running, as a container orchestrator
// does: whenever it ends, another is started.
type slot struct {
	tb   testing.TB
	exe  []string // the program, and how it is started
	env  []string
	name string

	mu       sync.Mutex
	current  *process
	stopping bool
	starts   int
	fenced   int
	lines    []string // the last that were logged
	grave    []string // the first that were errors, or told of a store
	ops      string   // address of the ops listener
	canary   string   // must be in no line
	leaks    []string // lines that hold it
	base     vitals
	done     chan struct{}
}

// A process is one run of a program.
type process struct {
	cmd   *exec.Cmd
	stdin io.Closer
	ready chan struct{} // closed once it listens
	gone  chan struct{}
}

// restartAfter is how long a slot stays empty.
const restartAfter = 100 * time.Millisecond

func newSlot(tb testing.TB, name string, env, exe []string, canary string) *slot {
	tb.Helper()
	s := &slot{tb: tb, name: name, exe: exe, env: append(env, programVariable+"="+name), canary: canary, done: make(chan struct{})}
	p, err := s.start()
	if err != nil {
		tb.Fatal(err)
	}
	go s.keep(p)
	tb.Cleanup(s.close)
	select {
	case <-p.ready:
	case <-p.gone:
		tb.Fatalf("%s ended before it listened:\n%s", name, s.log())
	case <-time.After(30 * time.Second):
		tb.Fatalf("%s does not listen:\n%s", name, s.log())
	}
	return s
}

func (s *slot) start() (*process, error) {
	s.mu.Lock()
	exe := s.exe
	s.mu.Unlock()
	p := &process{cmd: exec.Command(exe[0], exe[1:]...), ready: make(chan struct{}), gone: make(chan struct{})}
	p.cmd.Env = s.env
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	stdin, err := p.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	p.stdin = stdin
	stderr, err := p.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopping {
		return nil, fmt.Errorf("%s: stopping", s.name)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	s.current = p
	s.starts++
	go func() {
		s.read(p, stderr)
		p.cmd.Wait()
		close(p.gone)
	}()
	return p, nil
}

func (s *slot) read(p *process, r io.Reader) {
	scanner := bufio.NewScanner(r)
	scanner.Buffer(nil, 1<<20)
	listening := false
	for scanner.Scan() {
		text := scanner.Text()
		var line struct{ Msg, Level, Ops string }
		json.Unmarshal([]byte(text), &line)
		if !listening && (line.Msg == "listening" || line.Msg == "working") {
			listening = true
			s.mu.Lock()
			s.ops = line.Ops
			s.mu.Unlock()
			close(p.ready)
		}
		s.mu.Lock()
		if strings.Contains(text, s.canary) {
			s.leaks = append(s.leaks, text)
		}
		if strings.HasPrefix(line.Msg, "fenced:") {
			s.fenced++
		}
		if (line.Msg == "" || line.Level == "ERROR" || strings.HasPrefix(line.Msg, "store is")) && len(s.grave) < 100 {
			s.grave = append(s.grave, text)
		}
		if len(s.lines) == 400 {
			s.lines = s.lines[100:]
		}
		s.lines = append(s.lines, text)
		s.mu.Unlock()
	}
	io.Copy(io.Discard, r)
}

// keep starts the next process when one ends.
func (s *slot) keep(p *process) {
	defer close(s.done)
	for {
		<-p.gone
		p.stdin.Close()
		time.Sleep(restartAfter)
		var err error
		if p, err = s.start(); err != nil {
			return
		}
	}
}

// signal reaches the process that is there now, if any.
func (s *slot) signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.current.cmd.Process.Signal(sig)
}

// end asks the process to end, and waits until it has: a second request would
// cut its shutdown short.
func (s *slot) end() {
	s.mu.Lock()
	p := s.current
	s.mu.Unlock()
	p.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-p.gone:
	case <-time.After(30 * time.Second):
		s.tb.Errorf("%s does not end 30 s after a SIGTERM", s.name)
	}
}

func (s *slot) kill() { s.signal(syscall.SIGKILL) }

// pause stops the process for a while. If it is killed meanwhile, the next one
// is not stopped.
func (s *slot) pause(d time.Duration) {
	s.mu.Lock()
	p := s.current
	s.mu.Unlock()
	p.cmd.Process.Signal(syscall.SIGSTOP)
	time.Sleep(d)
	p.cmd.Process.Signal(syscall.SIGCONT)
}

func (s *slot) close() {
	s.mu.Lock()
	s.stopping = true
	s.current.cmd.Process.Kill()
	s.mu.Unlock()
	<-s.done
	if s.tb.Failed() {
		s.tb.Logf("%s, started %d times, said last:\n%s", s.name, s.starts, s.log())
	}
}

func (s *slot) log() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines[max(0, len(s.lines)-30):], "\n") + "\nand of what is grave, first:\n" + strings.Join(s.grave, "\n")
}

// reasons returns a few of the lines that say why deliveries were refused.
func (s *slot) reasons() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	refused := slices.DeleteFunc(slices.Clone(s.grave), func(line string) bool { return !strings.Contains(line, "delivery refused") })
	var some []string
	for i := 0; i < len(refused); i += 1 + len(refused)/4 {
		some = append(some, refused[i])
	}
	return strings.Join(some, "\n")
}

func (s *slot) fences() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fenced
}
