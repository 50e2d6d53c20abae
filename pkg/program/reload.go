package program

import (
	"context"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/hookonce/hookonce/pkg/config"
	"github.com/hookonce/hookonce/pkg/handler"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/telemetry"
)

// A swap is a handler that another can take the place of. Each request is
// answered to its end by the one that it met.
type swap struct{ current atomic.Pointer[http.Handler] }

func (s *swap) set(h http.Handler) { s.current.Store(&h) }

func (s *swap) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	(*s.current.Load()).ServeHTTP(w, r)
}

// A reloader reads the sources again when it is told to. What is wrong with
// them is logged, and those that are in use stay.
type reloader struct {
	hangup  <-chan os.Signal
	metrics *telemetry.Metrics
	log     *slog.Logger

	// read reads the sources and puts them to use, or returns an error.
	read func(context.Context) error
}

// Run reads at each signal until ctx ends.
func (r *reloader) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.hangup:
		}
		err := r.read(ctx)
		r.metrics.Reload(err == nil)
		if err != nil {
			r.log.ErrorContext(ctx, "sources not reloaded: those in use stay", "err", strings.Split(err.Error(), "\n"))
		}
	}
}

// A change is how sources differ from those before, by their names.
type change struct{ added, removed, changed []string }

func (c change) any() bool { return len(c.added)+len(c.removed)+len(c.changed) > 0 }

func (c change) attrs() []any {
	return []any{"added", c.added, "removed", c.removed, "changed", c.changed}
}

// compare tells how sources differ.
func compare(before, after []source.Source, same func(a, b source.Source) bool) change {
	old, c := map[string]source.Source{}, change{}
	for _, s := range before {
		old[s.Name] = s
	}
	for _, s := range after {
		if was, ok := old[s.Name]; !ok {
			c.added = append(c.added, s.Name)
		} else if !same(was, s) {
			c.changed = append(c.changed, s.Name)
		}
		delete(old, s.Name)
	}
	c.removed = slices.Sorted(maps.Keys(old))
	return c
}

// sameSource compares all that ingest does with a source. Verifiers hide their
// secrets from anybody but themselves, and the challengers have the same ones.
func sameSource(a, b source.Source) bool {
	if !a.Verifier.Equal(b.Verifier) {
		return false
	}
	a.Verifier, a.Challengers, b.Verifier, b.Challengers = nil, nil, nil, nil
	return reflect.DeepEqual(a, b)
}

// readIngest returns the sources as the environment and files say now. Of the
// rest of the settings nothing can change, since the environment cannot.
func readIngest(ctx context.Context, environ []string, log *slog.Logger, before []source.Source) ([]source.Source, error) {
	cfg, err := config.ReadIngest(environ)
	if err != nil {
		return nil, err
	}
	warn(ctx, log, cfg.Warnings)
	c := compare(before, cfg.Sources, sameSource)
	log.InfoContext(ctx, "sources reloaded", append(c.attrs(), "sources", len(cfg.Sources))...)
	return cfg.Sources, nil
}

// A routes is a router that another can take the place of. An attempt keeps the
// handler that it met.
type routes struct {
	current atomic.Pointer[handler.Router]
}

func (r *routes) set(router handler.Router) { r.current.Store(&router) }

// sameBuild compares what of a source its queue, leases and sweeps are built with.
func sameBuild(a, b source.Source) bool {
	build := func(s source.Source) any {
		return []any{s.Timeout, s.MaxRetry, s.Concurrency, s.Retention, s.KeepPayload, s.KeepDetails, s.IgnoreFields}
	}
	return reflect.DeepEqual(build(a), build(b))
}

// readWorker puts the handlers to use that the sources file names now, for the
// sources that the worker has. What else has changed needs a new worker.
func (r *routes) readWorker(ctx context.Context, o Options, log *slog.Logger, running []source.Source) error {
	cfg, err := config.ReadWorker(o.Environ, slices.Sorted(maps.Keys(o.Handlers))...)
	if err != nil {
		return err
	}
	warn(ctx, log, cfg.Warnings)
	router := route(cfg.Sources, o.Handlers)
	c := compare(running, cfg.Sources, sameBuild)
	for _, name := range c.removed { // its events are worked off
		router[name] = (*r.current.Load())[name]
	}
	r.set(router)
	log.InfoContext(ctx, "handlers reloaded", "sources", len(running))
	if c.any() {
		log.WarnContext(ctx, "restart the worker: of these sources more than the handlers has changed", c.attrs()...)
	}
	return nil
}
