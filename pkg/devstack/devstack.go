// Package devstack gives one caller a private Redis and Postgres, and removes
// them at the end.
//
// It serves our own programs and tests, and promises nothing to others.
//
// The servers are the machine's own if it has any. They listen on 127.0.0.1
// only, write to one folder, and outlive neither [Stack.Close] nor the program:
// a watchdog ends them even when the program is killed with SIGKILL.
package devstack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Options say what [Start] starts, and what remains of it. The zero value is a
// stack in a new temporary folder.
type Options struct {
	Dir  string // keeps the data here; "" is a new temporary folder
	Keep bool   // Close leaves Dir in place if it has a name, and a later Start on it finds the data again

	// Fast is for tests: Postgres does not wait for the disk. Its data survive
	// a killed server, but not a power cut.
	Fast bool

	Log *slog.Logger // nil discards

	// RedisURL and DatabaseURL name servers to use instead of starting any.
	// They are left alone at Close.
	RedisURL, DatabaseURL string
}

// A Stack is a Redis and a Postgres that answer.
type Stack struct {
	RedisURL    string
	DatabaseURL string

	Volatile bool     // Redis keeps nothing: it is a stand-in inside this program
	Notes    []string // what a person should know about this stack, a sentence or two each

	Redis    *Server // nil if it was named in the options, or is the stand-in
	Postgres *Server // nil if it was named in the options

	log     *slog.Logger
	home    *folder  // nil if no server needs one
	standIn *standIn // nil if there is a real Redis
	close   func() error
}

// Start starts what o asks for, and returns when both servers answer. They run
// until Close, however ctx ends.
func Start(ctx context.Context, o Options) (*Stack, error) {
	s := &Stack{RedisURL: o.RedisURL, DatabaseURL: o.DatabaseURL, log: o.Log}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.close = sync.OnceValue(s.shutDown)
	if err := s.start(ctx, o); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// start finds the programs first: without them there is nothing to clear up.
func (s *Stack) start(ctx context.Context, o Options) error {
	bins, err := s.find(ctx, o)
	if err != nil {
		return err
	}
	if bins.redis != "" || bins.postgres != "" {
		if s.home, err = openFolder(ctx, o.Dir, o.Keep); err != nil {
			return err
		}
	}
	if o.RedisURL == "" && bins.redis == "" {
		if err := s.useStandIn(); err != nil {
			return err
		}
	}
	return s.startServers(ctx, bins, o.Fast)
}

// programs are what to run; a name is empty if there is nothing to run.
type programs struct {
	redis    string // the server itself
	postgres string // the folder of initdb and postgres
}

func (s *Stack) find(ctx context.Context, o Options) (programs, error) {
	var found programs
	if o.RedisURL == "" {
		found.redis = findRedis()
	}
	if o.DatabaseURL != "" {
		return found, nil
	}
	found.postgres = findPostgres(ctx)
	if found.postgres != "" {
		return found, nil
	}
	s.log.Info("no postgres on this machine: downloading one")
	bin, err := download(ctx)
	if err != nil {
		return found, fmt.Errorf("postgres: none on this machine, so install PostgreSQL 14 or newer"+
			" (Debian, Ubuntu: apt-get install postgresql; macOS: brew install postgresql@17): %w", err)
	}
	s.Notes = append(s.Notes, "No Postgres on this machine: a downloaded one runs from "+bin+".")
	found.postgres = bin
	return found, nil
}

func (s *Stack) useStandIn() error {
	in, err := startStandIn()
	if err != nil {
		return err
	}
	s.standIn = in
	s.RedisURL = in.url()
	s.Volatile = true
	s.Notes = append(s.Notes, "No redis-server or valkey-server in PATH: a small stand-in runs inside this program. "+
		"It keeps nothing: whatever is queued is lost when the program ends.")
	return nil
}

func (s *Stack) startServers(ctx context.Context, bins programs, fast bool) error {
	var wg sync.WaitGroup
	var redisErr, postgresErr error
	if bins.redis != "" {
		s.Redis = newRedis(s.home, bins.redis)
		wg.Go(func() { s.RedisURL, redisErr = startRedis(ctx, s.Redis) })
	}
	if bins.postgres != "" {
		s.Postgres = newPostgres(s.home, bins.postgres, fast)
		wg.Go(func() { s.DatabaseURL, postgresErr = startPostgres(ctx, s.Postgres) })
	}
	wg.Wait()
	for _, server := range s.servers() {
		s.log.Debug("server started", "name", server.name, "pid", server.Pid(), "port", server.port)
	}
	return errors.Join(redisErr, postgresErr)
}

// servers returns the servers that are ours.
func (s *Stack) servers() []*Server {
	var ours []*Server
	for _, server := range []*Server{s.Redis, s.Postgres} {
		if server != nil {
			ours = append(ours, server)
		}
	}
	return ours
}

// Close stops the servers that Start started, waits until they are gone, and
// removes the folder unless it is to be kept. Further calls return the same.
func (s *Stack) Close() error { return s.close() }

func (s *Stack) shutDown() error {
	if s.standIn != nil {
		s.standIn.close()
	}
	ours := s.servers()
	errs := make([]error, len(ours))
	var wg sync.WaitGroup
	for i, server := range ours {
		wg.Go(func() { errs[i] = server.Stop() })
	}
	wg.Wait()
	if s.home != nil {
		errs = append(errs, s.home.close())
	}
	return errors.Join(errs...)
}
