package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// AttemptTimes are how long the attempts of a source took that completed their
// events lately.
type AttemptTimes struct {
	Source string
	Events int
	P99    time.Duration // no more than so long did 99 % of them take
}

// The conditions are those of an index, which is read backwards from now.
const selectAttemptTimes = `
SELECT source, count(*)::int, percentile_disc(0.99) WITHIN GROUP (ORDER BY completed_at - started_at)
FROM (
	SELECT source, started_at, completed_at FROM received_events
	WHERE status = 'completed' AND payload IS NOT NULL AND completed_at > clock_timestamp() - interval '1 hour'
	ORDER BY completed_at DESC LIMIT 20000
) AS lately
WHERE started_at IS NOT NULL
GROUP BY source ORDER BY source`

// AttemptTimes asks for those of the last hour, of 20,000 events at most.
func (s *Store) AttemptTimes(ctx context.Context) ([]AttemptTimes, error) {
	rows, _ := s.db.Query(ctx, selectAttemptTimes, plainly) // the error comes out of the collector
	times, err := pgx.CollectRows(rows, pgx.RowToStructByPos[AttemptTimes])
	if err != nil {
		return nil, unavailable(fmt.Errorf("ask how long attempts take: %w", err))
	}
	return times, nil
}
