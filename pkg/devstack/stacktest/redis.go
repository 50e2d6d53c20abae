package stacktest

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis returns the URL of the shared Redis. Others use it at the same time, so
// a test writes only below the name that [Source] gave it, and never flushes.
func Redis(tb testing.TB) string {
	tb.Helper()
	return sharedStack(tb).RedisURL
}

// RedisClient returns a client of the shared Redis that ends with its context and
// tries nothing twice.
func RedisClient(tb testing.TB) *redis.Client {
	tb.Helper()
	options, err := redis.ParseURL(Redis(tb))
	if err != nil {
		tb.Fatal(err)
	}
	options.ContextTimeoutEnabled, options.MaxRetries = true, -1
	client := redis.NewClient(options)
	tb.Cleanup(func() { client.Close() })
	return client
}

// Source returns the name of a source, and so of its queue, that is this
// test's alone. What the shared Redis holds of it is deleted after the test.
func Source(tb testing.TB) string {
	tb.Helper()
	name := sourceName(tb.Name())
	tb.Cleanup(func() {
		stack := shared.running.Load()
		if stack == nil {
			return // then nothing was written
		}
		if err := forget(stack.RedisURL, name); err != nil {
			tb.Errorf("delete the keys of %s: %v", name, err)
		}
	})
	return name
}

// sourceName is a random name that still tells which test it belongs to.
func sourceName(test string) string {
	const longest, random = 40, 8
	plain := strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || '0' <= r && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(strings.TrimPrefix(test, "Test")))
	plain = strings.Trim(plain[:min(len(plain), longest-random-1)], "-")
	return strings.Trim(plain+"-"+strings.ToLower(rand.Text()[:random]), "-")
}

// forget deletes all that asynq and we keep under the name of a source.
func forget(server, source string) error {
	options, err := redis.ParseURL(server)
	if err != nil {
		return err
	}
	client := redis.NewClient(options)
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, owner := range []string{"asynq", "hookonce"} {
		if err := deleteMatching(ctx, client, fmt.Sprintf("%s:{%s}:*", owner, source)); err != nil {
			return err
		}
	}
	return client.SRem(ctx, "asynq:queues", source).Err()
}

func deleteMatching(ctx context.Context, client *redis.Client, pattern string) error {
	keys := client.Scan(ctx, 0, pattern, 1000).Iterator()
	for keys.Next(ctx) {
		if err := client.Del(ctx, keys.Val()).Err(); err != nil {
			return err
		}
	}
	return keys.Err()
}
