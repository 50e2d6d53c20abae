// Package bench measures our programs beside what people would use instead, on
// a Redis and a Postgres of its own, and writes what it found.
//
// All that is measured runs in processes of its own: the same executable, told
// which part to be. It serves our own program and promises nothing to others.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/migrations"
	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/queue"
)

// Options say what is measured, and where the answer goes.
type Options struct {
	Self    []string // the command that runs a part; its name is appended
	Only    []string // the scenarios to run; none: all but those of Scale
	Quick   bool     // once, and for a moment: to see that it runs, not to measure
	Scale   bool     // the cost of scale, and nothing else
	Out     string   // the report; the plot is written beside it. "": neither
	Profile string   // a folder for CPU profiles of the parts; "": none

	Stdout, Stderr io.Writer
}

// A scenario measures one or a few rows of the report.
type scenario struct {
	name, about string
	run         func(context.Context, *rig) error
}

func scenarios() []scenario {
	return []scenario{
		{"accept", "accepted/s and CPU per event, beside the floor and the naive designs", accept},
		{"sizes", "the same for larger bodies, and with copies", sizes},
		{"fsync", "the same while Redis waits for the disk (appendfsync always)", fsync},
		{"latency", "from the intended time of sending to the answer, at half of the highest rate", latency},
		{"curve", "latency against offered load, for the plot", curve},
		{"storm", "latency while a backlog drains, Redis forks, another source floods", storm},
		{"overload", "three times what ingest can take", overload},
		{"drain", "how fast a backlog is worked off, beside the SQL floor", drain},
		{"idle", "from POST to committed effect, and what waiting costs", idle},
		{"duplicates", "copies of events in hand", duplicates},
		{"fairness", "a quiet source beside one that floods", fairness},
	}
}

var scaleScenarios = []scenario{{"scale", "a million queued, fifty sources, ten million rows", scale}}

// Names lists the scenarios and what each is about.
func Names() []string {
	var names []string
	for _, s := range scenarios() {
		names = append(names, fmt.Sprintf("%-10s  %s", s.name, s.about))
	}
	return names
}

// Run measures, prints each row as it is found, and writes the report.
func Run(ctx context.Context, o Options) (err error) {
	chosen, err := choose(o)
	if err != nil {
		return err
	}
	// The generator must not wait for a processor of Go's own making.
	runtime.GOMAXPROCS(max(4, 2*runtime.NumCPU()))
	debug.SetGCPercent(400)
	r, err := newRig(ctx, o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	began := time.Now()
	for _, s := range chosen {
		start := time.Now()
		fmt.Fprintf(o.Stderr, "== %s: %s\n", s.name, s.about)
		if err := s.run(ctx, r); err != nil {
			return fmt.Errorf("%s: %w", s.name, err)
		}
		fmt.Fprintf(o.Stderr, "   %s\n", time.Since(start).Round(time.Second))
	}
	r.report.took = time.Since(began)
	fmt.Fprintln(o.Stdout, r.report.text())
	if o.Out == "" {
		return nil
	}
	return r.report.write(o.Out)
}

func choose(o Options) ([]scenario, error) {
	all := scenarios()
	if o.Scale {
		all = scaleScenarios
	}
	if len(o.Only) == 0 {
		return all, nil
	}
	var chosen []scenario
	for _, name := range o.Only {
		i := slices.IndexFunc(all, func(s scenario) bool { return s.name == strings.TrimSpace(name) })
		if i < 0 {
			return nil, fmt.Errorf("no scenario %q: want any of\n%s", name, strings.Join(Names(), "\n"))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// A rig is what all scenarios work on: the stores, and a folder.
type rig struct {
	Options
	stack  *devstack.Stack
	db     *pgxpool.Pool
	rdb    *redis.Client
	dir    string
	report *report
	most   map[string]float64 // the highest rates found, by contestant
}

func newRig(ctx context.Context, o Options) (*rig, error) {
	r := &rig{Options: o, report: newReport(o), most: map[string]float64{}}
	if err := r.open(ctx); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

func (r *rig) open(ctx context.Context) (err error) {
	if r.dir, err = os.MkdirTemp("", "hookonce-bench-"); err != nil {
		return err
	}
	if r.Profile != "" {
		if err := os.MkdirAll(r.Profile, 0o755); err != nil {
			return err
		}
	}
	log := slog.New(slog.NewTextHandler(r.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	if r.stack, err = devstack.Start(ctx, devstack.Options{Log: log}); err != nil {
		return err
	}
	if r.stack.Volatile {
		return errors.New("there is no redis-server or valkey-server in PATH: a stand-in says nothing about speed")
	}
	options, err := redis.ParseURL(r.stack.RedisURL)
	if err != nil {
		return err
	}
	r.rdb = redis.NewClient(options)
	if r.db, err = pgxpool.New(ctx, r.stack.DatabaseURL); err != nil {
		return err
	}
	return r.prepare(ctx)
}

// prepare makes the tables, and lets Postgres remember when each transaction
// was committed.
func (r *rig) prepare(ctx context.Context) error {
	if _, err := r.db.Exec(ctx, "ALTER SYSTEM SET track_commit_timestamp = on"); err != nil {
		return err
	}
	r.db.Reset()
	if err := r.stack.Postgres.Restart(ctx); err != nil {
		return err
	}
	if _, err := migrations.Up(ctx, r.stack.DatabaseURL); err != nil {
		return err
	}
	if _, err := r.db.Exec(ctx, naiveTable); err != nil {
		return err
	}
	// Its own rewrites would come in the middle of some runs and not of others.
	if err := r.rdb.ConfigSet(ctx, "auto-aof-rewrite-percentage", "0").Err(); err != nil {
		return err
	}
	return r.report.describe(ctx, r)
}

func (r *rig) close() error {
	var err error
	if r.db != nil {
		r.db.Close()
	}
	if r.rdb != nil {
		r.rdb.Close()
	}
	if r.stack != nil {
		err = r.stack.Close()
	}
	return errors.Join(err, os.RemoveAll(r.dir))
}

// clear empties the stores and lets them settle, so that each run finds them
// the same.
func (r *rig) clear(ctx context.Context) error {
	if err := r.emptyRedis(ctx); err != nil {
		return err
	}
	const empty = `TRUNCATE received_events, event_attempts, payload_conflicts, queue_epochs, payments, naive`
	if _, err := r.db.Exec(ctx, empty); err != nil {
		return err
	}
	if err := r.mark(ctx); err != nil {
		return err
	}
	_, err := r.db.Exec(ctx, "CHECKPOINT")
	return err
}

// mark leaves the marks of a worker that has been there before. To one that finds
// none, Redis is one that lost its data, and it sends for all that waits again.
func (r *rig) mark(ctx context.Context) error {
	repairer := queue.NewRepairer(r.rdb)
	for i := range 2 { // no other source has a backlog when a worker comes
		_, run, err := repairer.Epoch(ctx, sourceName(i))
		if err != nil {
			return err
		}
		if err := repairer.SetEpoch(ctx, sourceName(i), "bench"); err != nil {
			return err
		}
		if _, err := r.db.Exec(ctx, "INSERT INTO queue_epochs (source, epoch) VALUES ($1, $2)", sourceName(i), "bench@"+run); err != nil {
			return err
		}
	}
	return nil
}

// rewrite makes Redis fork and write its file anew, and waits for it.
func (r *rig) rewrite(ctx context.Context) error {
	if err := r.rewritten(ctx); err != nil { // one that somebody did not wait for
		return err
	}
	if err := r.rdb.BgRewriteAOF(ctx).Err(); err != nil {
		return err
	}
	return r.rewritten(ctx)
}

func (r *rig) rewritten(ctx context.Context) error {
	for {
		info, err := r.rdb.InfoMap(ctx, "persistence").Result()
		if err != nil {
			return err
		}
		p := info["Persistence"]
		if p["aof_rewrite_in_progress"] == "0" && p["aof_rewrite_scheduled"] == "0" {
			return nil
		}
		if err := pause(ctx, 5*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// times is how often something is measured, and seconds for how long.
func (r *rig) times(n int) int {
	if r.Quick {
		return 1
	}
	return n
}

func (r *rig) seconds(s float64) time.Duration {
	if r.Quick {
		s = min(s/10, 1)
	}
	return time.Duration(s * float64(time.Second))
}

func (r *rig) number(n int) int {
	if r.Quick {
		return max(n/20, 20)
	}
	return n
}

func (r *rig) path(name string) string { return filepath.Join(r.dir, name) }
