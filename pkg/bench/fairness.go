package bench

import (
	"context"
	"fmt"
	"math"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

const (
	quietRate = 10
	// floodRate is about twice what a worker does, so that a backlog grows.
	floodRate = 4_000
)

// fairness lets a quiet source have ingest and worker for itself, and then
// shares them with one that floods.
func fairness(ctx context.Context, r *rig) error {
	env, err := r.sources(2)
	if err != nil {
		return err
	}
	if err := r.clear(ctx); err != nil {
		return err
	}
	ingest, err := r.start(ctx, "ingest", env)
	if err != nil {
		return err
	}
	defer ingest.stop()
	worker, err := r.start(ctx, "worker", env)
	if err != nil {
		return err
	}
	defer worker.stop()
	t := r.report.table("From received to completed, of a source that sends 10/s", "case", "events", "p50 ms", "p99 ms", "max ms")
	alone, err := r.quietRun(ctx, ingest, t, "alone")
	if err != nil {
		return err
	}
	beside, stop := context.WithCancel(ctx)
	flooded := make(chan struct{})
	go func() {
		defer close(flooded)
		_, _ = load.Fire(beside, load.Load{
			Addr: ingest.addr, Paths: []string{path(sourceName(1))}, Maker: smallEvents(),
			Rate: floodRate, Conns: openConns, Most: mostConns, For: r.seconds(120),
		}) // ended by us
	}()
	err = pause(ctx, r.seconds(3))
	var crowded [2]float64
	if err == nil {
		crowded, err = r.quietRun(ctx, ingest, t, fmt.Sprintf("beside one that sends %d/s", floodRate))
	}
	stop()
	<-flooded
	if err != nil {
		return err
	}
	goal := max(3*alone[1], 300)
	r.report.goal("fairness: received→completed p99 of a quiet source beside one that floods", "≤ max(3× its idle value, 300 ms)",
		fmt.Sprintf("%.0f ms (idle %.0f ms)", crowded[1], alone[1]), atMost(crowded[1], goal))
	return nil
}

// quietRun returns p50 and p99 in milliseconds.
func (r *rig) quietRun(ctx context.Context, ingest *part, t *table, name string) (p [2]float64, err error) {
	m := smallEvents()
	res, err := load.Fire(ctx, load.Load{Addr: ingest.addr, Paths: []string{path(sourceName(0))}, Maker: m, Rate: quietRate, Conns: 4, Most: 64, For: r.seconds(30)})
	if err != nil {
		return p, err
	}
	if err := pause(ctx, second); err != nil {
		return p, err
	}
	const question = `SELECT count(*), percentile_cont(ARRAY[0.5, 0.99, 1]) WITHIN GROUP (ORDER BY extract(epoch FROM completed_at - received_at) * 1000)
		FROM received_events WHERE source = 'main' AND event_id LIKE $1 || '%' AND completed_at IS NOT NULL`
	var n int
	var q []float64
	if err := r.db.QueryRow(ctx, question, m.Prefix()).Scan(&n, &q); err != nil {
		return p, err
	}
	if n < res.All.New {
		return p, fmt.Errorf("quiet source, %s: %d of %d events are completed after a second", name, n, res.All.New)
	}
	if n == 0 {
		q = []float64{math.NaN(), math.NaN(), math.NaN()}
	}
	t.line(name, fmt.Sprint(n), fmt.Sprintf("%.1f", q[0]), fmt.Sprintf("%.1f", q[1]), fmt.Sprintf("%.1f", q[2]))
	return [2]float64{q[0], q[1]}, nil
}
