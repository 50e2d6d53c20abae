package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// A contestant answers deliveries. Only one of those in a contest is under load
// at a time; the others wait.
type contestant struct {
	name string
	part *part
	// held is how many events it has, or at least that it has want of them; nil: it holds none.
	held func(ctx context.Context, want int) (int, error)

	rate  series            // answered per second
	p50   series            // milliseconds
	p99   series            // milliseconds
	cpu   map[string]series // µs per answer, by process
	mem   series            // MB
	notes []string
}

// contestants starts those of the names: floor, naive A, naive B, queue, inbox.
func (r *rig) contestants(ctx context.Context, names ...string) ([]*contestant, func(), error) {
	var all []*contestant
	stop := func() {
		for _, c := range all {
			c.part.stop()
		}
	}
	for _, name := range names {
		c, err := r.contestant(ctx, name)
		if err != nil {
			stop()
			return nil, nil, err
		}
		all = append(all, c)
	}
	return all, stop, nil
}

func (r *rig) contestant(ctx context.Context, name string, env ...string) (c *contestant, err error) {
	c = &contestant{name: name, cpu: map[string]series{}}
	switch name {
	case "floor":
		c.part, err = r.start(ctx, "floor")
	case "naive A":
		c.held = r.booked
		c.part, err = r.start(ctx, "naive-a")
	case "naive B":
		c.held = r.booked
		c.part, err = r.start(ctx, "naive-b")
	default: // ours, by its mode
		c.held = r.kept
		if _, err := r.sources(1); err != nil {
			return nil, err
		}
		c.part, err = r.start(ctx, "ingest", append([]string{"INGEST_ACK=" + name}, env...)...)
	}
	return c, err
}

func (r *rig) booked(ctx context.Context, _ int) (int, error) { return r.payments(ctx) }

func (r *rig) payments(ctx context.Context) (n int, err error) {
	err = r.db.QueryRow(ctx, `SELECT count(*) FROM payments`).Scan(&n)
	return n, err
}

func (r *rig) rows(ctx context.Context) (n int, err error) {
	err = r.db.QueryRow(ctx, `SELECT count(*) FROM received_events`).Scan(&n)
	return n, err
}

func (r *rig) queued(ctx context.Context, source string) (int, error) {
	n, err := r.rdb.LLen(ctx, "asynq:{"+source+"}:pending").Result()
	return int(n), err
}

// kept is how many events ours holds while there is no worker: in either store,
// since each stands in for the other.
func (r *rig) kept(ctx context.Context, want int) (int, error) {
	rows, err := r.rows(ctx)
	if err != nil || rows >= want {
		return rows, err
	}
	queued, err := r.queued(ctx, sourceName(0))
	if err != nil || queued >= want || rows == 0 {
		return queued, err
	}
	ids, err := r.rdb.LRange(ctx, "asynq:{"+sourceName(0)+"}:pending", 0, -1).Result()
	if err != nil {
		return 0, err
	}
	inPostgres, err := r.db.Query(ctx, `SELECT event_id FROM received_events`)
	if err != nil {
		return 0, err
	}
	more, err := pgx.CollectRows(inPostgres, pgx.RowTo[string])
	both := map[string]bool{}
	for _, id := range append(ids, more...) {
		both[id] = true
	}
	return len(both), err
}

// contest lets the contestants take turns, A B A B, and adds to their series.
func (r *rig) contest(ctx context.Context, rounds int, l load.Load, maker func() *load.Maker, cs ...*contestant) error {
	for range r.times(rounds) {
		for _, c := range cs {
			if err := r.clear(ctx); err != nil {
				return err
			}
			l.Maker = maker()
			res, err := r.fire(ctx, c, l)
			if err != nil {
				return err
			}
			c.rate = append(c.rate, res.Rate())
			c.p50 = append(c.p50, millis(res.Acks.At(0.5)))
			c.p99 = append(c.p99, millis(res.Acks.At(0.99)))
		}
	}
	return nil
}

// fire puts one contestant under load, takes its CPU time, and makes sure that
// it has what it accepted.
func (r *rig) fire(ctx context.Context, c *contestant, l load.Load) (load.Result, error) {
	m := r.meter(c.part)
	l.Addr, l.Turn = c.part.addr, m.turn
	if l.Paths == nil {
		l.Paths = []string{path(sourceName(0))}
	}
	res, err := load.Fire(ctx, l)
	if err != nil {
		return res, err
	}
	if bad := res.All.Failed + res.All.Lost; bad > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%s: %d deliveries failed, %d got no answer: %.100q", c.name, res.All.Failed, res.All.Lost, res.FirstFail))
	}
	for name := range m.used {
		c.cpu[name] = append(c.cpu[name], m.used.each(res.Answered(), name))
	}
	r.report.foreign = append(r.report.foreign, m.foreign)
	c.mem = append(c.mem, residentMB(c.part.pid()))
	if c.held == nil {
		return res, nil
	}
	held, err := c.held(ctx, res.All.New)
	if err == nil && held < res.All.New {
		err = fmt.Errorf("%s accepted %d events and holds %d", c.name, res.All.New, held)
	}
	return res, err
}

// own is the CPU time per answer of the processes that a contestant needs.
func (c *contestant) own() series {
	var sums series
	for i := range c.cpu[c.part.name] {
		sum := c.cpu[c.part.name][i]
		if c.held != nil {
			sum += c.cpu["redis"][i] + c.cpu["postgres"][i]
		}
		sums = append(sums, sum)
	}
	return sums
}

// generatorBound reports whether the generator used more CPU than what it
// measured, so that its own speed was measured.
func (c *contestant) generatorBound() bool {
	return c.cpu["generator"].median() > c.own().median()
}

func smallEvents() *load.Maker { return load.NewMaker(secret, smallBody) }

const (
	smallBody = 512
	midBody   = 4 << 10
	largeBody = 64 << 10

	manyConns = 128
	second    = time.Second
)

// highest is the rate that a contestant reached in the scenario accept, or does
// now.
func (r *rig) highest(ctx context.Context, c *contestant) (float64, error) {
	if most, ok := r.most[c.name]; ok {
		return most, nil
	}
	err := r.contest(ctx, 1, load.Load{Conns: manyConns, Warm: r.seconds(1), For: r.seconds(3)}, smallEvents, c)
	r.most[c.name] = c.rate.median()
	c.rate, c.p50, c.p99, c.mem, c.cpu = nil, nil, nil, nil, map[string]series{}
	return r.most[c.name], err
}
