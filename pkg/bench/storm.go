package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
	"github.com/hookonce/hookonce/pkg/source"
)

// A tempest is what goes on while latency is measured.
type tempest struct {
	what    string
	backlog int // events queued before
	worker  bool
	beside  func(ctx context.Context, r *rig, c *contestant) error // until ctx ends
}

// stormAnswers is how many answers each tempest is judged by.
const stormAnswers = 100_000

func tempests() []tempest {
	return []tempest{
		{what: "the worker drains 100,000 events", backlog: 100_000, worker: true},
		{what: "Redis forks for a rewrite, again and again", backlog: 100_000, beside: rewrites},
		{what: "a second source floods", beside: flood},
	}
}

// storm takes a quarter of the highest rate, so that there is something left
// for what goes on beside.
func storm(ctx context.Context, r *rig) error {
	t := r.report.table("Ack latency while something else goes on", latencyHead...)
	t.notes = append(t.notes, fmt.Sprintf("The worker has %d attempts at once, four for each core, if no other number is said.", atOnce))
	env, err := r.sources(2)
	if err != nil {
		return err
	}
	byDefault := source.Default().Concurrency
	more, err := r.sourcesAt(2, byDefault)
	if err != nil {
		return err
	}
	for _, mode := range []string{"queue", "inbox"} {
		c, err := r.contestant(ctx, mode, env)
		if err != nil {
			return err
		}
		defer c.part.stop()
		most, err := r.highest(ctx, c)
		if err != nil {
			return err
		}
		for _, w := range tempests() {
			if mode == "inbox" && w.what != tempests()[0].what {
				continue // the answer does not wait for Redis' file, and flooding is the same
			}
			l := load.Load{Rate: most / 4, Warm: r.seconds(1), Conns: openConns, Most: mostConns}
			l.For = time.Duration(float64(r.number(stormAnswers)) * 1.03 / l.Rate * float64(time.Second))
			res, err := r.weather(ctx, w, c, env, l)
			if err != nil {
				return err
			}
			t.line(append([]string{mode + ": " + w.what}, latencies(res)...)...)
			v := worst(atMost(millis(res.Acks.At(0.99)), 100), atMost(res.Acks.Max().Seconds(), 1))
			r.report.goal(fmt.Sprintf("**ack latency** while %s, `%s`, %.0f/s", w.what, mode, l.Rate), "p99 ≤ 100 ms, none > 1 s in ≥ 100,000",
				fmt.Sprintf("p99 %.1f ms, slowest %.0f ms of %d", millis(res.Acks.At(0.99)), millis(res.Acks.Max()), res.Answered()), sound(v, l, res))
			if w.worker { // what it costs when that has more at once
				if res, err = r.weather(ctx, w, c, more, l); err != nil {
					return err
				}
				t.line(append([]string{fmt.Sprintf("%s: %s, %d at once", mode, w.what, byDefault)}, latencies(res)...)...)
			}
		}
	}
	return nil
}

func (r *rig) weather(ctx context.Context, w tempest, c *contestant, env string, l load.Load) (res load.Result, err error) {
	for range r.times(voidTries) {
		if res, err = r.weatherOnce(ctx, w, c, env, l); err != nil || res.Late <= tooLate {
			return res, err
		}
	}
	return res, nil
}

func (r *rig) weatherOnce(ctx context.Context, w tempest, c *contestant, env string, l load.Load) (load.Result, error) {
	if err := r.clear(ctx); err != nil {
		return load.Result{}, err
	}
	quiet := c.other()
	if w.backlog > 0 {
		if _, err := r.fire(ctx, quiet, load.Load{Conns: manyConns, Count: r.number(w.backlog), Maker: smallEvents()}); err != nil {
			return load.Result{}, err
		}
	}
	if w.worker {
		worker, err := r.start(ctx, "worker", env)
		if err != nil {
			return load.Result{}, err
		}
		defer worker.stop()
		quiet.held = nil // the worker takes them out of the queue
	}
	beside, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		if w.beside == nil {
			done <- nil
			return
		}
		done <- w.beside(beside, r, c)
	}()
	l.Maker = smallEvents()
	res, err := r.fire(ctx, quiet, l)
	stop()
	if besideErr := <-done; err == nil && besideErr != nil {
		err = besideErr
	}
	return res, err
}

// rewrites keeps Redis forking.
func rewrites(ctx context.Context, r *rig, _ *contestant) error {
	for ctx.Err() == nil {
		if err := r.rewrite(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		_ = pause(ctx, 500*time.Millisecond)
	}
	return nil
}

// flood posts to the second source as fast as 32 connections can.
func flood(ctx context.Context, r *rig, c *contestant) error {
	_, err := load.Fire(ctx, load.Load{Addr: c.part.addr, Paths: []string{path(sourceName(1))}, Maker: smallEvents(), Conns: 32, For: time.Hour})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
