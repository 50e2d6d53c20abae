package bench

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/jackc/pgx/v5/pgxpool"
)

// The SQL floor is what Postgres costs without any queue: for each event the
// claim in its own commit, and then effect and completion in one, by plain pgx.
const (
	floorClaim = `INSERT INTO received_events AS e (source, event_id, event_type, status, attempt, payload, payload_sha256, content_type,
		headers, delivery, received_at, started_at, lease_until, worker, sweep_at)
	VALUES ('main', $1, 'payment.succeeded', 'processing', 1, $2, $3, 'application/json', '{}', $1, clock_timestamp(), clock_timestamp(),
		clock_timestamp() + interval '20 seconds', 'floor', clock_timestamp() + interval '20 seconds')
	ON CONFLICT (source, event_id) DO UPDATE SET status = 'processing', attempt = e.attempt + 1, started_at = clock_timestamp(),
		lease_until = clock_timestamp() + interval '20 seconds', worker = 'floor' WHERE e.status = 'received'
	RETURNING attempt`
	floorEffect   = `INSERT INTO payments (source, event_id, event_type, amount, attempt) VALUES ('main', $1, 'payment.succeeded', 4200, $2)`
	floorComplete = `UPDATE received_events SET status = 'completed', completed_at = clock_timestamp(), lease_until = NULL, sweep_at = NULL
	WHERE source = 'main' AND event_id = $1 AND attempt = $2 AND worker = 'floor' AND status = 'processing'`
)

// SQLFloor takes COUNT events through, CONCURRENCY at a time.
func SQLFloor(ctx context.Context, getenv func(string) string, ready func()) error {
	count, countErr := strconv.ParseInt(getenv("COUNT"), 10, 64)
	size, sizeErr := strconv.Atoi(getenv("SIZE"))
	concurrency, concurrencyErr := strconv.Atoi(getenv("CONCURRENCY"))
	cfg, err := pgxpool.ParseConfig(getenv("DATABASE_URL"))
	if err := errors.Join(countErr, sizeErr, concurrencyErr, err); err != nil {
		return err
	}
	cfg.MaxConns, cfg.MinConns = int32(concurrency), int32(concurrency)
	db, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return err
	}
	defer db.Close()
	ready()
	var next atomic.Int64
	var wg sync.WaitGroup
	errs := make([]error, concurrency)
	for i := range concurrency {
		wg.Go(func() {
			for n := next.Add(1); n <= count && errs[i] == nil; n = next.Add(1) {
				errs[i] = floorEvent(ctx, db, fmt.Sprintf("evt_%024d", n), make([]byte, size))
			}
		})
	}
	wg.Wait()
	if err = errors.Join(errs...); err == nil {
		<-ctx.Done() // its CPU time is read while it is there
	}
	return err
}

func floorEvent(ctx context.Context, db *pgxpool.Pool, id string, body []byte) error {
	sum, attempt := sha256.Sum256(body), 0
	if err := db.QueryRow(ctx, floorClaim, id, body, sum[:]).Scan(&attempt); err != nil {
		return err
	}
	tx, err := db.Begin(ctx)
	if err != nil {
		return err
	}
	defer tx.Rollback(ctx)
	if _, err := tx.Exec(ctx, floorEffect, id, attempt); err != nil {
		return err
	}
	if tag, err := tx.Exec(ctx, floorComplete, id, attempt); err != nil || tag.RowsAffected() != 1 {
		return fmt.Errorf("complete %s: %d rows, %w", id, tag.RowsAffected(), err)
	}
	return tx.Commit(ctx)
}
