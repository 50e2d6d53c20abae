// Package lock keeps two workers from running one event at the same time, by a
// key in Redis with a time to live.
//
// It saves work and proves nothing: a lock in Redis can be lost, or outlived by
// its holder. What makes a second run harmless is the fence in Postgres, so a
// lock is never renewed, and work goes on without one when Redis is away.
package lock

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// patience bounds each exchange with Redis: the lock is not worth more.
const patience = 500 * time.Millisecond

// A Redis lock. It may be used from many goroutines.
type Redis struct {
	rdb redis.UniversalClient
}

// New returns a lock on rdb, which it does not close.
func New(rdb redis.UniversalClient) *Redis { return &Redis{rdb} }

// key is in the same cluster slot as the source's queue.
func key(source, eventID string) string { return "hookonce:{" + source + "}:lock:" + eventID }

// Acquire takes the lock of an event for ttl at most, and returns the function
// that gives it back, which may be called when ctx has ended. An error is a
// [webhook.BusyError] if somebody else has the lock, and wraps
// [webhook.ErrUnavailable] if Redis does not answer.
func (l *Redis) Acquire(ctx context.Context, source, eventID string, ttl time.Duration) (release func(context.Context) error, err error) {
	k, token := key(source, eventID), rand.Text()
	exchange, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err = l.rdb.SetArgs(exchange, k, token, redis.SetArgs{Mode: "NX", TTL: ttl}).Err()
	switch {
	case errors.Is(err, redis.Nil):
		err = l.refused(exchange, k, token)
	case err != nil:
		err = fmt.Errorf("lock %s/%s: %w: %w", source, eventID, webhook.ErrUnavailable, err)
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return l.release(ctx, k, token) }, nil
}

// askLock tells whose the lock is.
//
// KEYS[1] -> lock
// ARGV[1] -> token
//
// It returns 0 if the lock is the token's, else the milliseconds it lives.
var askLock = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return 0
end
return math.max(redis.call("PTTL", KEYS[1]), 1)
`)

// refused looks at the lock that was not given. It is ours after all if the
// first answer was lost and the client asked again.
func (l *Redis) refused(ctx context.Context, k, token string) error {
	left, err := askLock.Run(ctx, l.rdb, []string{k}, token).Int64()
	if err != nil {
		return fmt.Errorf("%s: %w: %w", k, webhook.ErrUnavailable, err)
	}
	if left == 0 {
		return nil
	}
	return &webhook.BusyError{After: time.Duration(left) * time.Millisecond}
}

// releaseLock deletes the lock only from the hand that holds it: after the time
// to live it may be another's.
//
// KEYS[1] -> lock
// ARGV[1] -> token
var releaseLock = redis.NewScript(`
if redis.call("GET", KEYS[1]) == ARGV[1] then
	return redis.call("DEL", KEYS[1])
end
return 0
`)

func (l *Redis) release(ctx context.Context, k, token string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	if err := releaseLock.Run(ctx, l.rdb, []string{k}, token).Err(); err != nil {
		return fmt.Errorf("release %s: %w", k, err)
	}
	return nil
}
