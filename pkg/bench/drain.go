package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
	"github.com/hookonce/hookonce/pkg/source"
)

// drained is how many events are worked off in one run.
const drained = 15_000

// drain lets the worker and the SQL floor take turns.
func drain(ctx context.Context, r *rig) error {
	n := r.number(drained)
	best, err := r.bestConcurrency(ctx, n/3)
	if err != nil {
		return err
	}
	floor, queue, inbox := newDrainer("SQL floor"), newDrainer("queue"), newDrainer("inbox")
	byDefault, concurrency := newDrainer("queue"), source.Default().Concurrency
	byDefault.name = fmt.Sprintf("queue, %d at once", concurrency)
	env, err := r.sourcesAt(1, concurrency)
	if err != nil {
		return err
	}
	for range r.times(3) {
		if err := r.floorRun(ctx, floor, n, best); err != nil {
			return err
		}
		for _, d := range []*drainer{queue, inbox} {
			if err := r.workerRun(ctx, d, n); err != nil {
				return err
			}
		}
		if err := r.workerRun(ctx, byDefault, n, env); err != nil {
			return err
		}
	}
	t := r.report.table(fmt.Sprintf("Draining %d events with the handler payments", n),
		"who", "events/s", "CPU µs per event: its own", "Redis", "Postgres", "bytes per event: tables", "WAL")
	for _, d := range []*drainer{floor, queue, byDefault, inbox} {
		t.line(d.name, d.rate.text("%.0f"), orNA(d.cpu["own"]), orNA(d.cpu["redis"]), orNA(d.cpu["postgres"]), d.tables.text("%.0f"), d.wal.text("%.0f"))
		r.report.emit(fmt.Sprint(t.lines[len(t.lines)-1]))
	}
	t.notes = append(t.notes, fmt.Sprintf("The SQL floor was best with %d at once; ours had %d, four for each core, and its default of %d on a line of its own. Each run was checked: one payment for each event, at its first attempt.", best, atOnce, concurrency))
	r.report.cost("work off, `queue`, with the handler payments", queue.all())
	r.report.takes("tables of Postgres, when it is done", queue.tables.median())
	r.report.takes("write-ahead log of Postgres", queue.wal.median())
	for _, d := range []*drainer{queue, inbox} {
		ratio := d.rate.over(floor.rate)
		goal := "≥ 0.6"
		r.report.goal(fmt.Sprintf("drain with `payments`, exactly once, of the SQL floor, `%s`", d.name), goal, ratio.text("%.2f"), atLeast(ratio.median(), 0.6))
	}
	return nil
}

// A drainer works events off.
type drainer struct {
	name string
	mode string // of ours
	rate series
	cpu  map[string]series

	tables, wal series // bytes per event
}

// all is the CPU time per event of all processes.
func (d *drainer) all() (sums series) {
	for i := range d.cpu["own"] {
		sums = append(sums, d.cpu["own"][i]+d.cpu["redis"][i]+d.cpu["postgres"][i])
	}
	return sums
}

func newDrainer(name string) *drainer {
	return &drainer{name: name, mode: name, cpu: map[string]series{}}
}

func (r *rig) bestConcurrency(ctx context.Context, n int) (best int, err error) {
	most := 0.0
	for _, c := range []int{4, 8, 16, 32} {
		d := newDrainer("")
		if err := r.floorRun(ctx, d, n, c); err != nil {
			return 0, err
		}
		if d.rate[0] > most {
			best, most = c, d.rate[0]
		}
	}
	return best, nil
}

func (r *rig) floorRun(ctx context.Context, d *drainer, n, concurrency int) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	p, err := r.start(ctx, "sqlfloor", fmt.Sprint("COUNT=", n), fmt.Sprint("CONCURRENCY=", concurrency), fmt.Sprint("SIZE=", smallBody))
	if err != nil {
		return err
	}
	defer p.stop()
	return r.drainedBy(ctx, p, d, n)
}

func (r *rig) workerRun(ctx context.Context, d *drainer, n int, env ...string) error {
	if err := r.fill(ctx, d.mode, n); err != nil {
		return err
	}
	p, err := r.start(ctx, "worker", env...)
	if err != nil {
		return err
	}
	defer p.stop()
	return r.drainedBy(ctx, p, d, n)
}

// fill queues events, with no worker there.
func (r *rig) fill(ctx context.Context, mode string, n int) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	c, err := r.contestant(ctx, mode)
	if err != nil {
		return err
	}
	defer c.part.stop()
	_, err = r.fire(ctx, c, load.Load{Conns: 32, Count: n, Maker: smallEvents()})
	if err != nil {
		return err
	}
	if _, err := r.db.Exec(ctx, "CHECKPOINT"); err != nil {
		return err
	}
	return nil
}

// drainPatience is how long a drain may take for each thousand events.
const drainPatience = 10 * time.Second

// drainedBy waits until all is done, checks that it was done once, and takes
// the rate from the times of the first and the last effect.
func (r *rig) drainedBy(ctx context.Context, p *part, d *drainer, n int) error {
	before, err := r.stored(ctx)
	if err != nil {
		return err
	}
	m := r.meter(p)
	m.turn(true)
	ctx, cancel := context.WithTimeoutCause(ctx, time.Minute+time.Duration(n/1000)*drainPatience, fmt.Errorf("%s did not finish: %s", p.name, p.lastWords()))
	defer cancel()
	for done := 0; done < n; {
		if err := pause(ctx, 50*time.Millisecond); err != nil {
			return fmt.Errorf("%d of %d: %w", done, n, err)
		}
		if p.ended() {
			return fmt.Errorf("%s ended after %d of %d: %s", p.name, done, n, p.lastWords())
		}
		if done, err = r.payments(ctx); err != nil {
			return err
		}
	}
	m.turn(false)
	if err := pause(ctx, 100*time.Millisecond); err != nil { // the last commits
		return err
	}
	const question = `SELECT (SELECT count(*) FROM payments), (SELECT count(*) FROM received_events WHERE status = 'completed' AND attempt = 1),
		(SELECT extract(epoch FROM max(created_at) - min(created_at))::float8 FROM payments), (SELECT coalesce(bool_and(epoch LIKE 'bench@%'), false) FROM queue_epochs)`
	var effects, completed int
	var took float64
	var whole bool
	if err := r.db.QueryRow(ctx, question).Scan(&effects, &completed, &took, &whole); err != nil {
		return err
	}
	if !whole {
		return fmt.Errorf("%s: the worker took Redis for one that lost its data", d.name)
	}
	if effects != n || completed != n {
		return fmt.Errorf("%s: %d effects and %d completed at the first attempt, of %d events", d.name, effects, completed, n)
	}
	after, err := r.stored(ctx)
	if err != nil {
		return err
	}
	d.rate = append(d.rate, float64(n)/took)
	d.tables, d.wal = append(d.tables, float64(after.tables)/float64(n)), append(d.wal, float64(after.wal-before.wal)/float64(n))
	for name := range m.used {
		key := name
		if name == p.name {
			key = "own"
		}
		d.cpu[key] = append(d.cpu[key], m.used.each(n, name))
	}
	return nil
}
