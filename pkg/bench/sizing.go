package bench

import (
	"context"
	"fmt"
)

// newSizing is the table for those who choose machines. It is filled by the
// scenarios that know.
func newSizing() *table {
	return &table{title: "Sizing, for events of 0.5 kB", head: []string{"what", "of one event", "so much on one core, or in a GB"}, notes: []string{
		"CPU is that of all processes of the step, Redis and Postgres among them, as measured above; disks are not in it. A core's worth is 1 s divided by it. " +
			"Connections at most: ingest 128 to Redis and 6 to Postgres; a worker 2 and its concurrency for each source to Redis, and 4 more; to Postgres min(Σ concurrency, 32) + 4.",
	}}
}

// cost adds what a step costs in CPU time, in microseconds.
func (rep *report) cost(what string, us series) {
	if len(us) > 0 {
		rep.sizing.line(what, us.text("%.0f")+" µs", fmt.Sprintf("%.0f/s", 1e6/us.median()))
	}
}

// takes adds what an event takes of memory or disk, in bytes.
func (rep *report) takes(what string, bytes float64) {
	rep.sizing.line(what, fmt.Sprintf("%.0f bytes", bytes), fmt.Sprintf("%.1f million", 1e3/bytes))
}

// A store is what Postgres has written.
type store struct{ tables, wal int64 }

func (r *rig) stored(ctx context.Context) (s store, err error) {
	err = r.db.QueryRow(ctx, `SELECT pg_total_relation_size('received_events') + pg_total_relation_size('payments'), pg_current_wal_insert_lsn() - '0/0'`).
		Scan(&s.tables, &s.wal)
	return s, err
}
