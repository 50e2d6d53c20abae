package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// idle measures one source and fifty.
func idle(ctx context.Context, r *rig) error {
	t := r.report.table("Idle: from POST to committed effect, and what waiting costs", "sources", "events", "p50 ms", "p99 ms", "max ms",
		"CPU % of a core: worker", "Redis", "Postgres", "ingest")
	for _, s := range []struct {
		sources int
		most    float64 // % of a core
	}{{1, 2}, {50, 6}} {
		times, used, err := r.idleRun(ctx, s.sources)
		if err != nil {
			return err
		}
		p50, cpu := millis(times.At(0.5)), used["worker"]+used["redis"]
		t.line(fmt.Sprint(s.sources), fmt.Sprint(len(times)), fmt.Sprintf("%.1f", p50), fmt.Sprintf("%.1f", millis(times.At(0.99))),
			fmt.Sprintf("%.1f", millis(times.Max())), fmt.Sprintf("%.1f", used["worker"]), fmt.Sprintf("%.1f", used["redis"]),
			fmt.Sprintf("%.1f", used["postgres"]), fmt.Sprintf("%.1f", used["ingest"]))
		r.report.goal(fmt.Sprintf("idle, sources: %d; POST to committed effect; CPU of worker + Redis", s.sources),
			fmt.Sprintf("p50 ≤ 60 ms at ≤ %.0f %% of a core", s.most), fmt.Sprintf("p50 %.1f ms at %.1f %%", p50, cpu),
			worst(atMost(p50, 60), atMost(cpu, s.most)))
	}
	return nil
}

// idleRun waits, and then sends an event now and then.
func (r *rig) idleRun(ctx context.Context, sources int) (load.Latencies, map[string]float64, error) {
	if err := r.clear(ctx); err != nil {
		return nil, nil, err
	}
	env, err := r.sources(sources)
	if err != nil {
		return nil, nil, err
	}
	ingest, err := r.start(ctx, "ingest", env)
	if err != nil {
		return nil, nil, err
	}
	defer ingest.stop()
	worker, err := r.start(ctx, "worker", env)
	if err != nil {
		return nil, nil, err
	}
	defer worker.stop()
	if err := pause(ctx, r.seconds(3)); err != nil {
		return nil, nil, err
	}
	m, span := r.meter(ingest, worker), r.seconds(10)
	m.turn(true)
	if err := pause(ctx, span); err != nil {
		return nil, nil, err
	}
	m.turn(false)
	percent := map[string]float64{}
	for name, d := range m.used {
		percent[name] = 100 * float64(d) / float64(span)
	}
	sent := map[string]time.Time{}
	for range r.number(100) {
		if err := pause(ctx, 60*time.Millisecond+rand.N(60*time.Millisecond)); err != nil {
			return nil, nil, err
		}
		if err := r.sendOne(ctx, ingest, path(sourceName(rand.IntN(sources))), sent); err != nil {
			return nil, nil, err
		}
	}
	if err := pause(ctx, second); err != nil {
		return nil, nil, err
	}
	times, err := r.sinceSent(ctx, sent)
	return times, percent, err
}

// sendOne sends one event and notes when.
func (r *rig) sendOne(ctx context.Context, p *part, path string, sent map[string]time.Time) error {
	m := smallEvents()
	at := time.Now()
	res, err := load.Fire(ctx, load.Load{Addr: p.addr, Paths: []string{path}, Maker: m, Conns: 1, Count: 1})
	if err != nil {
		return err
	}
	if res.New != 1 {
		return fmt.Errorf("an event was not accepted: %s", res.FirstFail)
	}
	sent[m.ID(0)] = at
	return nil
}

// sinceSent is how long each event took until its effect was committed.
func (r *rig) sinceSent(ctx context.Context, sent map[string]time.Time) (load.Latencies, error) {
	rows, err := r.db.Query(ctx, `SELECT event_id, pg_xact_commit_timestamp(xmin) FROM payments`)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var times load.Latencies
	for rows.Next() {
		var id string
		var at time.Time
		if err := rows.Scan(&id, &at); err != nil {
			return nil, err
		}
		if begun, ok := sent[id]; ok {
			times = append(times, at.Sub(begun))
		}
	}
	if len(times) != len(sent) {
		return nil, fmt.Errorf("%d events were sent, and %d have an effect", len(sent), len(times))
	}
	slices.Sort(times)
	return times, rows.Err()
}
