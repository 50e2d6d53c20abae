package bench

import (
	"context"
	"fmt"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// accept is the contest of all.
func accept(ctx context.Context, r *rig) error {
	cs, stop, err := r.contestants(ctx, "floor", "queue", "inbox", "naive A", "naive B")
	if err != nil {
		return err
	}
	defer stop()
	l := load.Load{Conns: manyConns, Warm: r.seconds(1), For: r.seconds(3)}
	if err := r.contest(ctx, 5, l, smallEvents, cs...); err != nil {
		return err
	}
	for _, c := range cs {
		r.most[c.name] = c.rate.median()
	}
	bytes, err := r.queuedBytes(ctx, cs[1])
	if err != nil {
		return err
	}
	floor, queue, inbox, naiveB := cs[0], cs[1], cs[2], cs[4]
	rep := r.report
	ratio := queue.rate.over(floor.rate)
	rep.goal("accepted/s at 128 connections, `queue`, of floor", "≥ 0.65", ratio.text("%.2f"), atLeast(ratio.median(), 0.65))
	cost := queue.own().over(floor.own())
	rep.goal("CPU per accepted event, ingest + Redis, of floor's CPU", "≤ 1.8×", cost.text("%.2f×"), atMost(cost.median(), 1.8))
	ofB, ofFloor := inbox.rate.over(naiveB.rate), inbox.rate.over(floor.rate)
	rep.goal("`inbox` accepted/s", "≥ 3× naive B, ≥ 0.35 of floor", ofB.text("%.1f×")+", "+ofFloor.text("%.2f"),
		worst(atLeast(ofB.median(), 3), atLeast(ofFloor.median(), 0.35)))
	t := rep.throughput("Accepted per second, bodies of 0.5 kB, 128 connections", cs)
	t.notes = append(t.notes, fmt.Sprintf("A queued event of 0.5 kB takes %.0f bytes of Redis' memory.", bytes))
	rep.cost("accept, `queue`", queue.own())
	rep.cost("accept, `inbox`", inbox.own())
	rep.takes("memory of Redis while it is queued", bytes)
	rep.bars = append(rep.bars, barsOf("0.5 kB", cs)...)
	return nil
}

// queuedBytes is what one queued event takes of Redis' memory.
func (r *rig) queuedBytes(ctx context.Context, c *contestant) (float64, error) {
	if err := r.clear(ctx); err != nil {
		return 0, err
	}
	before, err := r.redisMemory(ctx)
	if err != nil {
		return 0, err
	}
	n := r.number(20_000)
	res, err := r.fire(ctx, &contestant{name: c.name, part: c.part, cpu: map[string]series{}}, load.Load{Conns: 16, Count: n, Maker: smallEvents()})
	if err != nil {
		return 0, err
	}
	if err := pause(ctx, second); err != nil { // buffers are freed
		return 0, err
	}
	after, err := r.redisMemory(ctx)
	return (after - before) / float64(res.All.New), err
}

func (r *rig) redisMemory(ctx context.Context) (float64, error) {
	info, err := r.rdb.InfoMap(ctx, "memory").Result()
	if err != nil {
		return 0, err
	}
	var used float64
	_, err = fmt.Sscan(info["Memory"]["used_memory"], &used)
	return used, err
}

// sizes repeats the contest with larger bodies, and with copies.
func sizes(ctx context.Context, r *rig) error {
	for _, s := range []struct {
		name   string
		size   int
		copies float64
	}{{"4 kB", midBody, 0}, {"64 kB", largeBody, 0}, {"0.5 kB, a fifth of them copies", smallBody, 0.2}} {
		cs, stop, err := r.contestants(ctx, "floor", "queue", "inbox")
		if err != nil {
			return err
		}
		maker := func() *load.Maker {
			m := load.NewMaker(secret, s.size)
			m.Copies = s.copies
			return m
		}
		l := load.Load{Conns: manyConns, Warm: r.seconds(0.5), For: r.seconds(2)}
		err = r.contest(ctx, 3, l, maker, cs...)
		stop()
		if err != nil {
			return err
		}
		r.report.throughput("Bodies of "+s.name, cs)
		if s.copies == 0 {
			r.report.bars = append(r.report.bars, barsOf(s.name, cs)...)
		}
	}
	return nil
}

// fsync lets Redis write each command to the disk before it answers.
func fsync(ctx context.Context, r *rig) error {
	cs, stop, err := r.contestants(ctx, "floor", "queue")
	if err != nil {
		return err
	}
	defer stop()
	if err := r.rdb.ConfigSet(ctx, "appendfsync", "always").Err(); err != nil {
		return err
	}
	defer r.rdb.ConfigSet(ctx, "appendfsync", "everysec")
	l := load.Load{Conns: manyConns, Warm: r.seconds(1), For: r.seconds(3)}
	if err := r.contest(ctx, 3, l, smallEvents, cs...); err != nil {
		return err
	}
	ratio := cs[1].rate.over(cs[0].rate)
	r.report.goal("the same rate with `appendfsync always`", "≥ 0.5", ratio.text("%.2f"), atLeast(ratio.median(), 0.5))
	r.report.throughput("With `appendfsync always`, 0.5 kB", cs)
	return nil
}

// duplicates sends copies of events that are queued.
func duplicates(ctx context.Context, r *rig) error {
	cs, stop, err := r.contestants(ctx, "queue")
	if err != nil {
		return err
	}
	defer stop()
	queue, copies := cs[0], cs[0].other()
	copies.name = "queue, copies"
	l := load.Load{Conns: manyConns, Warm: r.seconds(0.5), For: r.seconds(2)}
	for range r.times(3) {
		if err := r.contest(ctx, 1, l, smallEvents, queue); err != nil {
			return err
		}
		if err := r.clear(ctx); err != nil {
			return err
		}
		m := smallEvents()
		if _, err := r.fire(ctx, queue.other(), load.Load{Conns: manyConns, Count: r.number(20_000), Maker: m}); err != nil {
			return err
		}
		again := l
		again.Maker = m.Again()
		res, err := r.fire(ctx, copies, again)
		if err != nil {
			return err
		}
		if res.All.New > 0 {
			copies.notes = append(copies.notes, fmt.Sprintf("%d copies were accepted as new", res.All.New))
		}
		copies.rate = append(copies.rate, res.Rate())
		copies.p50 = append(copies.p50, millis(res.Acks.At(0.5)))
		copies.p99 = append(copies.p99, millis(res.Acks.At(0.99)))
	}
	ratio := copies.rate.over(queue.rate)
	r.report.goal("duplicates/s answered (all copies of events in hand), of accepted/s", "≥ 0.7", ratio.text("%.2f"), atLeast(ratio.median(), 0.7))
	r.report.throughput("Copies of events in hand", []*contestant{queue, copies})
	return nil
}

// other is the same contestant with series of its own.
func (c *contestant) other() *contestant {
	return &contestant{name: c.name, part: c.part, held: c.held, cpu: map[string]series{}}
}
