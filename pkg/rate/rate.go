// Package rate limits how many deliveries of a source are taken, over all
// ingest processes together, by one key in Redis for each source.
//
// A limit protects what comes after it and is no guarantee: where Redis does
// not answer at once, a delivery is let through.
package rate

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// patience bounds the exchange with Redis: a limit is not worth more of the
// time that an acknowledgement has.
const patience = 100 * time.Millisecond

// spread returns the time that one delivery stands for, if count of them are
// taken in each per, and how many may come at once: what a second has, but one
// at least.
func spread(count int, per time.Duration) (interval time.Duration, burst int64) {
	interval = per / time.Duration(count)
	return interval, max(1, int64(time.Second/interval))
}

// A Limiter counts in Redis. It may be used from many goroutines.
type Limiter struct {
	rdb redis.UniversalClient
}

// New returns a limiter on rdb, which it does not close.
func New(rdb redis.UniversalClient) *Limiter { return &Limiter{rdb} }

// take is the generic cell rate algorithm: the key holds the moment, in
// microseconds of Redis' own clock, until which all deliveries so far have used
// up their time. What is later than a burst allows is of another clock.
//
// KEYS[1] -> limit
// ARGV[1] -> microseconds for each delivery
// ARGV[2] -> microseconds of a burst
//
// It returns 0 if the delivery was counted, else the microseconds to wait.
var take = redis.NewScript(`
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]
local interval, burst = tonumber(ARGV[1]), tonumber(ARGV[2])
local used = tonumber(redis.call("GET", KEYS[1]) or "0") or 0
used = math.min(math.max(used, now), now + burst) + interval
if used - now > burst then
	return math.ceil(used - now - burst)
end
redis.call("SET", KEYS[1], string.format("%.0f", used), "PX", math.ceil((used - now) / 1000) + 1)
return 0
`)

// Take counts one delivery of a source that may have count in each per. It
// returns 0, or how long the sender should wait, and then nothing was counted.
// An error means that Redis did not say.
func (l *Limiter) Take(ctx context.Context, source string, count int, per time.Duration) (wait time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	interval, burst := spread(count, per)
	key := "hookonce:{" + source + "}:rate" // in the slot of the source's queue
	left, err := take.Run(ctx, l.rdb, []string{key}, interval.Microseconds(), interval.Microseconds()*burst).Int64()
	if err != nil {
		return 0, fmt.Errorf("count a delivery of %s: %w", source, err)
	}
	return time.Duration(left) * time.Microsecond, nil
}
