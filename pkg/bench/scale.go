package bench

import (
	"context"
	"fmt"
	"time"

	"github.com/hookonce/hookonce/pkg/bench/load"
)

// How much more there is at the large end.
const (
	scaleQueued  = 1_000_000
	scaleSources = 50
	scaleFewRows = 1_000_000
	scaleRows    = 10_000_000
)

// scale compares accepted/s and drain with a little and with a lot.
func scale(ctx context.Context, r *rig) error {
	if err := r.rdb.ConfigSet(ctx, "maxmemory", "8gb").Err(); err != nil {
		return err
	}
	t := r.report.table("The cost of scale", "what", "accepted/s", "drained/s")
	nothing := func(context.Context) error { return nil }
	cases := []struct {
		what    string
		sources int
		prepare func(context.Context) error
		between func(context.Context) error // the rounds
	}{
		{"1 queued, 1 source, no rows", 1, nothing, r.clear},
		{fmt.Sprintf("%d queued", r.number(scaleQueued)), 1, func(ctx context.Context) error { return r.fillUp(ctx, r.number(scaleQueued)) }, nothing},
		{fmt.Sprintf("%d sources", scaleSources), scaleSources, nothing, r.clear},
		{fmt.Sprintf("%d rows", r.number(scaleFewRows)), 1, func(ctx context.Context) error { return r.manyRows(ctx, r.number(scaleFewRows)) }, r.emptyRedis},
		{fmt.Sprintf("%d rows", r.number(scaleRows)), 1, func(ctx context.Context) error { return r.manyRows(ctx, r.number(scaleRows)) }, r.emptyRedis},
	}
	accepted, done := make([]series, len(cases)), make([]series, len(cases))
	for i, c := range cases {
		if err := c.prepare(ctx); err != nil {
			return fmt.Errorf("%s: %w", c.what, err)
		}
		for range r.times(3) {
			if err := c.between(ctx); err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
			a, d, err := r.scaleRun(ctx, c.sources)
			if err != nil {
				return fmt.Errorf("%s: %w", c.what, err)
			}
			accepted[i], done[i] = append(accepted[i], a), append(done[i], d)
		}
		t.line(c.what, accepted[i].text("%.0f"), done[i].text("%.0f"))
		r.report.emit(fmt.Sprint(t.lines[i]))
	}
	for i, from := range []int{0, 0, 0, 0, 3} {
		if i == 0 || i == 3 {
			continue
		}
		a, d := accepted[i].median()/accepted[from].median(), done[i].median()/done[from].median()
		r.report.goal("cost of scale: "+cases[i].what, "accepted/s and drain within 10 %", fmt.Sprintf("accepted %.2f, drain %.2f of that with %s", a, d, cases[from].what),
			worst(atLeast(a, 0.9), atLeast(d, 0.9)))
	}
	return nil
}

// fillUp queues n events that stay.
func (r *rig) fillUp(ctx context.Context, n int) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	c, err := r.contestant(ctx, "queue")
	if err != nil {
		return err
	}
	defer c.part.stop()
	_, err = r.fire(ctx, c, load.Load{Conns: 64, Count: n, Maker: smallEvents()})
	return err
}

func (r *rig) emptyRedis(ctx context.Context) error {
	if err := r.rdb.FlushAll(ctx).Err(); err != nil {
		return err
	}
	return r.rewrite(ctx)
}

// manyRows fills the tables with events that were completed in the last month.
func (r *rig) manyRows(ctx context.Context, n int) error {
	if err := r.clear(ctx); err != nil {
		return err
	}
	for _, sql := range []string{
		`INSERT INTO received_events (source, event_id, event_type, status, attempt, payload, payload_sha256, content_type, delivery,
			received_at, started_at, completed_at, worker)
		SELECT 'main', 'old_' || md5(i::text), 'payment.succeeded', 'completed', 1, convert_to(repeat(md5(i::text), 16), 'UTF8'), sha256(i::text::bytea),
			'application/json', i::text, t, t, t, 'old'
		FROM generate_series(1, $1::bigint) i, LATERAL (SELECT clock_timestamp() - interval '29 days' * (i::float8 / $1) AS t) _`,
		`INSERT INTO payments (source, event_id, event_type, amount, attempt)
		SELECT 'main', 'old_' || md5(i::text), 'payment.succeeded', 4200, 1 FROM generate_series(1, $1::bigint) i`,
	} {
		if _, err := r.db.Exec(ctx, sql, n); err != nil {
			return err
		}
	}
	for _, sql := range []string{"VACUUM ANALYZE received_events", "VACUUM ANALYZE payments", "CHECKPOINT"} {
		if _, err := r.db.Exec(ctx, sql); err != nil {
			return err
		}
	}
	return nil
}

// scaleRun measures both rates on top of what is there: what is accepted adds
// to what is queued, and a part of that is drained.
func (r *rig) scaleRun(ctx context.Context, sources int) (accepted, done float64, err error) {
	env, err := r.sources(sources)
	if err != nil {
		return 0, 0, err
	}
	ingest, err := r.start(ctx, "ingest", env)
	if err != nil {
		return 0, 0, err
	}
	defer ingest.stop()
	var paths []string
	for i := range sources {
		paths = append(paths, path(sourceName(i)))
	}
	res, err := load.Fire(ctx, load.Load{
		Addr: ingest.addr, Paths: paths, Maker: smallEvents(), Conns: 2 * manyConns, Warm: r.seconds(1), For: r.seconds(5),
	})
	if err != nil {
		return 0, 0, err
	}
	ingest.stop()
	worker, err := r.start(ctx, "worker", env)
	if err != nil {
		return 0, 0, err
	}
	defer worker.stop()
	if err := pause(ctx, r.seconds(2)); err != nil {
		return 0, 0, err
	}
	before, began, err := r.paid(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := pause(ctx, r.seconds(10)); err != nil {
		return 0, 0, err
	}
	after, ended, err := r.paid(ctx)
	return res.Rate(), float64(after-before) / ended.Sub(began).Seconds(), err
}

// paid is a count that a large table makes no slower.
func (r *rig) paid(ctx context.Context) (n int64, at time.Time, err error) {
	err = r.db.QueryRow(ctx, `SELECT coalesce(max(id), 0), clock_timestamp() FROM payments`).Scan(&n, &at)
	return n, at, err
}
