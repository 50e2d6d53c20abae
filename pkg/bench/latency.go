package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// tooLate is how late the generator may be without making a run void.
const tooLate = 50 * time.Millisecond

// Connections of an open loop: at first, and at most.
const (
	openConns = 128
	mostConns = 1024
)

// voidTries is how often a run is repeated in which the generator was late.
const voidTries = 3

// openLoop fires at a contestant until a run is not void, or patience ends.
func (r *rig) openLoop(ctx context.Context, c *contestant, l load.Load) (res load.Result, err error) {
	l.Conns, l.Most = openConns, max(l.Most, mostConns)
	for range r.times(voidTries) {
		if err = r.clear(ctx); err != nil {
			return res, err
		}
		l.Maker = smallEvents()
		if res, err = r.fire(ctx, c, l); err != nil || res.Late <= tooLate {
			return res, err
		}
	}
	return res, nil
}

// sound is v, unless the generator was late or did not send what it should.
func sound(v verdict, l load.Load, rs ...load.Result) verdict {
	for _, res := range rs {
		if res.Late > tooLate || res.Offered < 0.95*l.Rate {
			return void
		}
	}
	return v
}

// latency is measured at half of the highest rate.
func latency(ctx context.Context, r *rig) error {
	cs, stop, err := r.contestants(ctx, "queue", "inbox")
	if err != nil {
		return err
	}
	defer stop()
	t := r.report.table("Ack latency at half of the highest rate", latencyHead...)
	for _, c := range cs {
		most, err := r.highest(ctx, c)
		if err != nil {
			return err
		}
		l := load.Load{Rate: most / 2, Warm: r.seconds(1), For: r.seconds(7)}
		var p50, p99, p999 series
		var all []load.Result
		for range r.times(3) {
			res, err := r.openLoop(ctx, c, l)
			if err != nil {
				return err
			}
			t.line(append([]string{c.name}, latencies(res)...)...)
			p50, p99, p999 = append(p50, millis(res.Acks.At(0.5))), append(p99, millis(res.Acks.At(0.99))), append(p999, millis(res.Acks.At(0.999)))
			all = append(all, res)
		}
		v := worst(atMost(p50.median(), 1), atMost(p99.median(), 10), atMost(p999.median(), 50))
		r.report.goal(fmt.Sprintf("**ack latency**, open loop at half of the maximum rate (%.0f/s), `%s`", l.Rate, c.name),
			"p50 ≤ 1 ms, p99 ≤ 10 ms, p99.9 ≤ 50 ms",
			fmt.Sprintf("p50 %s, p99 %s, p99.9 %s ms", p50.text("%.2f"), p99.text("%.1f"), p999.text("%.1f")), sound(v, l, all...))
	}
	return nil
}

// curve is for the plot.
func curve(ctx context.Context, r *rig) error {
	cs, stop, err := r.contestants(ctx, "floor", "queue", "inbox")
	if err != nil {
		return err
	}
	defer stop()
	t := r.report.table("Latency against offered load", latencyHead...)
	lines := make([]line, len(cs))
	for _, c := range cs {
		if _, err := r.highest(ctx, c); err != nil {
			return err
		}
	}
	for _, share := range []float64{0.1, 0.3, 0.5, 0.7, 0.85, 1} {
		for i, c := range cs {
			l := load.Load{Rate: share * r.most[c.name], Warm: r.seconds(0.5), For: r.seconds(2.5)}
			res, err := r.openLoop(ctx, c, l)
			if err != nil {
				return err
			}
			t.line(append([]string{c.name}, latencies(res)...)...)
			lines[i].name = c.name
			lines[i].points = append(lines[i].points, point{res.Offered, millis(res.Acks.At(0.5)), millis(res.Acks.At(0.99))})
		}
	}
	r.report.curves = lines
	return nil
}
