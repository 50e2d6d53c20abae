package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/dashboard"
	"github.com/hookonce/hookonce/pkg/demo"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/httpserve"
	"github.com/hookonce/hookonce/pkg/program"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/telemetry"
)

// A devRun is one run of hookonce dev.
type devRun struct {
	*console
	keep, once            bool
	envFile               string
	databaseURL, redisURL string
}

func (c *console) devCommand() *cobra.Command {
	d := &devRun{console: c}
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything here, on a Redis and a Postgres of its own",
		Long: "Run ingest, worker and dashboard in this process, on a Redis and a Postgres of its own.\n" +
			"HOOKONCE_CONFIG and INGEST_ADDR are taken from the environment; the databases only from the flags.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return d.run(cmd.Context()) },
	}
	f := cmd.Flags()
	f.BoolVar(&d.once, "once", false, "tell the story of a webhook that is delivered more than once, and exit 0 if all went as promised")
	f.BoolVar(&d.keep, "keep", false, "keep the data in .hookonce/data for the next run")
	f.StringVar(&d.envFile, "env-file", devEnvFile, "write the addresses here")
	f.StringVar(&d.databaseURL, "database-url", "", "use this Postgres")
	f.StringVar(&d.redisURL, "redis-url", "", "use this Redis")
	return cmd
}

// run starts the stack and what runs on it, and returns when ctx ends, or the
// demo does.
func (d *devRun) run(ctx context.Context) (err error) {
	stack, err := devstack.Start(ctx, d.stackOptions())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stack.Close()) }()
	for _, note := range stack.Notes {
		fmt.Fprintln(d.stderr, note)
	}
	if _, err := migrations.Up(ctx, stack.DatabaseURL); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	sources, remove, err := d.sourcesFile()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	story := demo.New()
	t := &theater{
		devRun: d, stack: stack, environ: d.programEnviron(ctx, stack, sources), end: cancel,
		handlers: map[string]handler.Handler{"demo": story.Handler},
		addresses: map[string]string{
			"DATABASE_URL": stack.DatabaseURL, "REDIS_URL": stack.RedisURL, "HOOKONCE_CONFIG": sources,
		},
	}
	if err := t.open(ctx); err != nil {
		return errors.Join(err, t.close())
	}
	if d.once {
		err = d.tell(ctx, story, t)
	} else {
		err = t.show(ctx)
	}
	return errors.Join(err, t.close())
}

func (d *devRun) stackOptions() devstack.Options {
	o := devstack.Options{
		RedisURL:    d.redisURL,
		DatabaseURL: d.databaseURL,
		Log:         slog.New(slog.NewTextHandler(d.stderr, &slog.HandlerOptions{Level: slog.LevelWarn})),
	}
	if d.keep {
		o.Dir, o.Keep = filepath.Join(".hookonce", "data"), true
	}
	return o
}

// devSources is the sources file of a run that is given none. A hookonce.yaml
// that lies here is not taken: it is for production, with secrets to be set.
const devSources = "sources: {default: {verify: none}}\n"

// sourcesFile is where ingest and worker find their sources. remove deletes it
// if it was made here.
func (d *devRun) sourcesFile() (name string, remove func() error, err error) {
	text := []byte(devSources)
	if d.once {
		text = demo.Sources
	} else if name := d.getenv("HOOKONCE_CONFIG"); name != "" {
		name, err := filepath.Abs(name)
		return name, func() error { return nil }, err
	}
	f, err := os.CreateTemp("", "hookonce-*.yaml")
	if err != nil {
		return "", nil, err
	}
	_, err = f.Write(text)
	return f.Name(), func() error { return os.Remove(f.Name()) }, errors.Join(err, f.Close())
}

// programEnviron is the environment that ingest and worker see.
func (d *devRun) programEnviron(ctx context.Context, stack *devstack.Stack, sources string) []string {
	set := map[string]string{
		"REDIS_URL":       stack.RedisURL,
		"DATABASE_URL":    stack.DatabaseURL,
		"HOOKONCE_CONFIG": sources,
		"OPS_ADDR":        "127.0.0.1:0",
		"LOG_FORMAT":      "text",
	}
	if d.once {
		maps.Copy(set, map[string]string{
			"DEMO_SECRET": demo.Secret, "INGEST_ADDR": "127.0.0.1:0", "WORKER_SOURCES": "",
			"RETRY_MIN": "500ms", "RETRY_MAX": "1s", "LOG_LEVEL": "error",
			"INGEST_ACK_TIMEOUT": "10s", // on a slow machine, too, each copy meets the first in Redis, as is told
		})
	} else {
		set["INGEST_ADDR"] = d.ingestAddr(ctx)
	}
	return with(d.environ, set)
}

const devAddr = "127.0.0.1:8080"

// ingestAddr is where ingest listens: by default at a well-known address, or at
// any free one if that is taken.
func (d *devRun) ingestAddr(ctx context.Context) string {
	if addr := d.getenv("INGEST_ADDR"); addr != "" {
		return addr
	}
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", devAddr)
	if err != nil {
		fmt.Fprintf(d.stderr, "%s is taken: ingest listens on another port\n", devAddr)
		return "127.0.0.1:0"
	}
	ln.Close()
	return devAddr
}

func (d *devRun) tell(ctx context.Context, story *demo.Story, t *theater) error {
	rdb, err := queue.Dial(t.stack.RedisURL, queue.Profile{Read: 3 * time.Second, Pool: 2})
	if err != nil {
		return err
	}
	defer rdb.Close()
	err = story.Tell(ctx, demo.Stage{
		IngestURL:   t.addresses["INGEST_URL"],
		DatabaseURL: t.stack.DatabaseURL,
		Forget:      func(ctx context.Context, source, id string) error { return queue.Forget(ctx, rdb, source, id) },
		Out:         d.stdout,
	})
	if err != nil {
		return fmt.Errorf("not as promised:\n%w", err)
	}
	d.printf("\nAll as promised.\n")
	return nil
}

// A theater is what runs on the stack: ingest, worker and dashboard.
type theater struct {
	*devRun
	stack     *devstack.Stack
	environ   []string
	handlers  map[string]handler.Handler
	addresses map[string]string

	end     func() // ends all parts
	running []chan error
}

// open starts all parts and returns once they listen.
func (t *theater) open(ctx context.Context) error {
	err := t.start(ctx, program.Ingest, func(public, ops net.Addr) {
		t.addresses["INGEST_URL"], t.addresses["INGEST_OPS_URL"] = httpURL(public), httpURL(ops)
	})
	if err != nil {
		return err
	}
	err = t.start(ctx, program.Worker, func(_, ops net.Addr) { t.addresses["WORKER_OPS_URL"] = httpURL(ops) })
	if err != nil {
		return err
	}
	return t.start(ctx, t.dashboard, func(public, _ net.Addr) { t.addresses["DASHBOARD_URL"] = httpURL(public) })
}

func httpURL(a net.Addr) string { return "http://" + a.String() }

// start runs a program and returns when it listens, or has failed to. When it
// ends later, all others do too.
func (t *theater) start(ctx context.Context, run func(context.Context, program.Options) error, listening func(public, ops net.Addr)) error {
	ready, done := make(chan struct{}), make(chan error, 1)
	o := program.Options{Environ: t.environ, Stderr: t.stderr, Handlers: t.handlers, Listening: func(public, ops net.Addr) {
		listening(public, ops)
		close(ready)
	}}
	go func() {
		defer t.end()
		done <- run(ctx, o)
	}()
	select {
	case <-ready:
		t.running = append(t.running, done)
		return nil
	case err := <-done:
		return err
	}
}

// dashboard serves asynqmon.
func (t *theater) dashboard(ctx context.Context, o program.Options) (err error) {
	page := dashboard.New(func() any {
		rdb, err := queue.Dial(t.stack.RedisURL, queue.Profile{Read: 3 * time.Second, Pool: 4})
		if err != nil {
			return err // the dashboard says that this is no client
		}
		return rdb
	})
	defer func() { err = errors.Join(err, page.Close()) }()
	ln, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	o.Listening(ln.Addr(), nil)
	return httpserve.Serve(ctx, ln, page, telemetry.NewLog(t.stderr, slog.LevelWarn, "text"))
}

// show says where everything is, until ctx ends.
func (t *theater) show(ctx context.Context) (err error) {
	remove, err := t.writeEnv()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	t.printf("\nTry it:\n  %s\n  %s send%s --copies 5 --parallel\n  %[2]s events list\n", t.curl(), t.self(), t.otherSource())
	<-ctx.Done()
	return nil
}

// curl is a line that posts to the source default, or, where there is none, asks
// for the metrics.
func (t *theater) curl() string {
	if t.otherSource() != "" {
		return "curl -s " + t.addresses["INGEST_OPS_URL"] + "/metrics"
	}
	return fmt.Sprintf(`curl -i %s/webhooks -H 'Content-Type: application/json' -d `+
		`'{"event_id":"evt_1","event_type":"payment.succeeded","amount":4200,"timestamp":%d}'`,
		t.addresses["INGEST_URL"], time.Now().Unix())
}

// otherSource chooses a source for send, if the sources file has no default.
func (t *theater) otherSource() string {
	sources, err := config.ReadSources(t.environ)
	if err != nil || len(sources) == 0 || slices.ContainsFunc(sources, func(s source.Source) bool { return s.Name == source.DefaultName }) {
		return ""
	}
	return " --source " + sources[0].Name
}

// self is how this program is called by a line to paste.
func (d *devRun) self() string {
	self := os.Args[0]
	if strings.Contains(self, "go-build") {
		self = "go run ./cmd/hookonce"
	}
	if d.envFile != devEnvFile { // then the other commands would not look there
		self = "env $(cat " + d.envFile + ") " + self
	}
	return self
}

// redacted hides a password, which the file may have but not the screen.
func redacted(address string) string {
	u, err := url.Parse(address)
	if err != nil || u.User == nil {
		return address
	}
	return u.Redacted()
}

// writeEnv prints the addresses and writes them to the file in which other
// commands look for them. remove takes them back: they lead nowhere afterwards.
func (t *theater) writeEnv() (remove func() error, err error) {
	var lines bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(t.addresses)) {
		fmt.Fprintf(&lines, "%s=%s\n", name, t.addresses[name])
		t.printf("%s=%s\n", name, redacted(t.addresses[name]))
	}
	if err := os.MkdirAll(filepath.Dir(t.envFile), 0o755); err != nil {
		return nil, err
	}
	if err := os.WriteFile(t.envFile, lines.Bytes(), 0o600); err != nil {
		return nil, err
	}
	return func() error {
		now, err := os.ReadFile(t.envFile)
		if err != nil || !bytes.Equal(now, lines.Bytes()) {
			return nil // another hookonce dev was started here since
		}
		return os.Remove(t.envFile)
	}, nil
}

// close ends all parts and waits for them.
func (t *theater) close() error {
	t.end()
	var errs []error
	for _, done := range t.running {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}
