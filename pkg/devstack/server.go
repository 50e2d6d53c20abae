package devstack

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"time"
)

// A Server is one server process that a test may kill, pause and restart. Its
// port and its data stay the same.
type Server struct {
	name string
	home *folder
	bin  string
	dir  string // where the data are

	prepare func(ctx context.Context) error
	args    func(port int) []string
	answers func(ctx context.Context) error // nil if our process, and no other, answers

	mu   sync.Mutex
	port int
	proc *process // nil until the first start
}

// Pid returns the id of the process, or 0 if none is running.
func (s *Server) Pid() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return 0
	}
	return s.proc.pid
}

// Kill ends the server and its children with SIGKILL, and returns when they are
// gone.
func (s *Server) Kill() error { return s.tell("kill", (*process).kill) }

// Stop shuts the server down in order, without waiting for its clients, and
// returns when it is gone. One that does not obey is killed.
func (s *Server) Stop() error { return s.tell("stop", (*process).stop) }

// Pause stops the server and its children with SIGSTOP: connections stay open,
// and nothing answers.
func (s *Server) Pause() error { return s.tell("pause", (*process).pause) }

// Resume ends a Pause.
func (s *Server) Resume() error { return s.tell("resume", (*process).resume) }

// tell does nothing if no process is running.
func (s *Server) tell(what string, do func(*process) error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil || s.proc.ended() {
		return nil
	}
	if err := do(s.proc); err != nil {
		return fmt.Errorf("%s: %s: %w", s.name, what, err)
	}
	return nil
}

// Restart stops the server if it is running, starts it on the same port with
// the same data, and returns when it answers.
func (s *Server) Restart(ctx context.Context) error {
	if err := s.Stop(); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.run(ctx)
}

// start is the first start: it picks the port.
func (s *Server) start(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.prepare(ctx); err != nil {
		return fmt.Errorf("%s: %w", s.name, err)
	}
	var err error
	for range 5 {
		if s.port, err = freePort(); err != nil {
			return err
		}
		if err = s.run(ctx); err == nil || free(s.port) {
			return err
		}
	}
	return err
}

func (s *Server) run(ctx context.Context) error {
	p, err := s.home.launch(s.name, s.bin, s.args(s.port)...)
	if err != nil {
		return err
	}
	s.proc = p
	if err := s.await(ctx); err != nil {
		return errors.Join(err, p.kill())
	}
	return nil
}

// await returns when the server answers. A paused machine or a slow disk gets
// half a minute.
func (s *Server) await(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	for {
		err := s.ask(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.proc.done:
			return fmt.Errorf("%s ended before it answered; its last words: %s", s.name, s.home.tail(s.name))
		case <-ctx.Done():
			return fmt.Errorf("%s does not answer: %w: %w; its last words: %s",
				s.name, context.Cause(ctx), err, s.home.tail(s.name))
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func (s *Server) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address(s.port))
	if err != nil {
		return err
	}
	conn.Close()
	return s.answers(ctx)
}

// freePort returns a port of 127.0.0.1 that nobody listens on. It is none that
// the kernel would give to an outgoing connection: while a server is down,
// a client that tries to reach it again and again could otherwise get the
// server's own port, and keep it.
func freePort() (int, error) {
	const lowest, highest = 20000, 32000
	for range 100 {
		if port := lowest + rand.IntN(highest-lowest); free(port) {
			return port, nil
		}
	}
	return 0, fmt.Errorf("no free port found between %d and %d", lowest, highest)
}

// free reports whether a server could listen on port.
func free(port int) bool {
	ln, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
	if err != nil {
		return false
	}
	return ln.Close() == nil
}

func address(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
