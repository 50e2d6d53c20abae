// Package program wires the long-running programs: it is the one place that
// knows all parts. cmd/ingest and cmd/worker are these functions; hookonce dev
// runs both in one process; and who writes handlers in Go calls [Worker] from a
// main of their own:
//
//	program.Worker(ctx, program.Options{
//		Environ:  os.Environ(),
//		Stderr:   os.Stderr,
//		Handlers: map[string]handler.Handler{"invoices": invoices},
//	})
//
// with `handler: invoices` in the sources file.
package program

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/source"
)

// Options are what a program gets from the process it runs in.
type Options struct {
	Args    []string // without the program's name; only -h is known
	Environ []string // as os.Environ returns it
	Stderr  io.Writer
	Stdout  io.Writer // for what was asked for, by -h; nil: Stderr

	// Handlers are those of the worker beside the built-in ones, by the name
	// that the sources file gives them.
	Handlers map[string]handler.Handler

	// Hangup, if set, tells by each value to read the sources file again.
	Hangup <-chan os.Signal

	// Listening, if set, is called once all listeners are open: the public one
	// (nil in a worker) and that for operators.
	Listening func(public, ops net.Addr)
}

// Main runs a program until SIGINT or SIGTERM, and exits. A second signal ends
// it at once. SIGHUP has it read the sources file again.
func Main(name string, run func(context.Context, Options) error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	queue.Quiet()
	SpareCollections(os.Environ())
	if err := run(ctx, Options{Args: os.Args[1:], Environ: os.Environ(), Stderr: os.Stderr, Stdout: os.Stdout, Hangup: hangup}); err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
}

// help answers -h, and refuses other arguments.
func (o Options) help(settings any) (asked bool, err error) {
	switch {
	case len(o.Args) == 0:
		return false, nil
	case len(o.Args) == 1 && slices.Contains([]string{"-h", "-help", "--help"}, o.Args[0]):
		w := o.Stdout
		if w == nil {
			w = o.Stderr
		}
		config.Help(w, settings)
		return true, nil
	}
	return false, fmt.Errorf("unknown argument %q: settings are environment variables, see -h", o.Args[0])
}

// warn logs what is not wrong with the settings, and should be known.
func warn(ctx context.Context, log *slog.Logger, warnings []string) {
	for _, w := range warnings {
		log.WarnContext(ctx, w)
	}
}

// queueSettings are what the sources want of their queues.
func queueSettings(sources []source.Source) map[string]queue.Settings {
	settings := map[string]queue.Settings{}
	for _, s := range sources {
		settings[s.Name] = queue.Settings{Timeout: s.Timeout, Retention: s.Retention, Concurrency: s.Concurrency}
		if len(s.IgnoreFields) > 0 {
			with := settings[s.Name]
			with.Same = s.SameBody
			settings[s.Name] = with
		}
	}
	return settings
}

// sameBody compares two bodies of an event as their source says.
func sameBody(sources []source.Source) func(source string, a, b []byte) bool {
	compare := map[string]func(a, b []byte) bool{}
	for _, s := range sources {
		compare[s.Name] = s.SameBody
	}
	return func(source string, a, b []byte) bool {
		same, known := compare[source]
		return known && same(a, b)
	}
}

// listen opens the listener for operators, and the public one if it is named.
func listen(ctx context.Context, public, ops string) (p, o net.Listener, err error) {
	if public != "" {
		if p, err = (&net.ListenConfig{}).Listen(ctx, "tcp", public); err != nil {
			return nil, nil, fmt.Errorf("INGEST_ADDR: %w", err)
		}
	}
	if o, err = (&net.ListenConfig{}).Listen(ctx, "tcp", ops); err != nil {
		if p != nil {
			p.Close()
		}
		return nil, nil, fmt.Errorf("OPS_ADDR: %w", err)
	}
	return p, o, nil
}

// together runs all of fs, ends them all when one fails, and returns when all
// have.
func together(ctx context.Context, fs ...func(context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	results := make(chan error, len(fs))
	for _, f := range fs {
		go func() {
			err := f(ctx)
			cancel()
			results <- err
		}()
	}
	var errs []error
	for range fs {
		errs = append(errs, <-results)
	}
	return errors.Join(errs...)
}

// workerName is new at each start: a worker that comes back is another.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	return fmt.Sprintf("%s-%d-%s", host, os.Getpid(), rand.Text()[:8])
}
