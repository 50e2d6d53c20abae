package devstack

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A process is one run of a server, in a process group of its own: Ctrl-C in a
// terminal leaves it to us to stop it in order.
type process struct {
	pid  int
	done chan struct{} // closed once it ended and was reaped
	err  error         // how it ended; read it after done
}

// launchScript names itself to the watchdog before it becomes the server. If
// the watchdog acts already, one of the two sees the other.
const launchScript = `
echo $$ >"$1/$2.pid" && [ -e "$1/` + liveName + `" ] || exit 1
shift 2
exec "$@"`

// launch starts bin in the folder. The pid file and the log get their name from
// name.
func (f *folder) launch(name, bin string, args ...string) (*process, error) {
	log, err := os.OpenFile(f.logName(name), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	cmd := &exec.Cmd{
		Path:        "/bin/sh",
		Args:        append([]string{"sh", "-c", launchScript, "sh", f.path, name, bin}, args...),
		Dir:         f.path,
		Env:         environ(),
		Stdout:      log,
		Stderr:      log,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true, Credential: f.as.credential()},
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", bin, err)
	}
	p := &process{pid: cmd.Process.Pid, done: make(chan struct{})}
	go p.reap(cmd)
	return p, nil
}

// environ is ours without what would change a server's behavior.
func environ() []string {
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "PG") || strings.HasPrefix(v, "LC_") || strings.HasPrefix(v, "LANG")
	})
	return append(env, "LC_ALL=C")
}

func (p *process) reap(cmd *exec.Cmd) {
	p.err = cmd.Wait()
	close(p.done)
}

func (p *process) ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// pause returns when all have stopped. The parent goes first: then it makes no
// more children.
func (p *process) pause() error {
	_, err := p.freeze()
	return err
}

// freeze also returns the children. The process group does not hold them: each
// child of Postgres has one of its own.
func (p *process) freeze() ([]int, error) {
	if err := signal(-p.pid, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	if err := until(func(table []entry) bool { return stopped(table, p.pid) }); err != nil {
		return nil, fmt.Errorf("stop process %d: %w", p.pid, err)
	}
	children, err := childrenOf(p.pid)
	if err != nil {
		return nil, err
	}
	if err := signalAll(children, syscall.SIGSTOP); err != nil {
		return nil, err
	}
	err = until(func(table []entry) bool { return stopped(table, children...) })
	return children, err
}

func (p *process) resume() error {
	children, err := childrenOf(p.pid)
	return errors.Join(err, signalAll(append(children, -p.pid), syscall.SIGCONT))
}

// stop asks for the fast shutdown of Postgres by a signal that Redis takes too.
func (p *process) stop() error {
	err := errors.Join(p.resume(), signal(p.pid, syscall.SIGINT))
	if err != nil {
		return errors.Join(err, p.kill())
	}
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
		return p.kill()
	}
}

// kill also waits for the children, which would keep a new Postgres from its
// data.
func (p *process) kill() error {
	children, err := p.freeze()
	err = errors.Join(err, signalAll(append(children, -p.pid), syscall.SIGKILL))
	if err != nil {
		return err
	}
	<-p.done // nothing outlives SIGKILL
	return until(func(table []entry) bool { return gone(table, children...) })
}

func signalAll(pids []int, sig syscall.Signal) error {
	var errs []error
	for _, pid := range pids {
		errs = append(errs, signal(pid, sig))
	}
	return errors.Join(errs...)
}

// signal is content if the process has ended.
func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal process %d: %w", pid, err)
	}
	return nil
}
