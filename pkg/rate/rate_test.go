package rate_test

import (
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/rate"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// take asks until Redis says: the machine of a test may be slow.
func take(t *testing.T, l *rate.Limiter, source string, count int, per time.Duration) time.Duration {
	t.Helper()
	for range 50 {
		if wait, err := l.Take(t.Context(), source, count, per); err == nil {
			return wait
		}
	}
	t.Fatal("Redis does not say")
	return 0
}

// TestTake takes a burst, waits as it is told to, and takes one more.
func TestTake(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		count  int
		per    time.Duration
		burst  int
		longer time.Duration // what it is told to wait, at most
	}{
		{"a second's worth", 10, 10 * time.Second, 1, time.Second},
		{"more than one a second", 120, time.Minute, 2, 500 * time.Millisecond},
		{"less than one a second", 30, time.Minute, 1, 2 * time.Second},
		{"one an hour", 1, time.Hour, 1, time.Hour},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			l, source := rate.New(stacktest.RedisClient(t)), stacktest.Source(t)
			start := time.Now()
			for i := range tt.burst {
				if wait := take(t, l, source, tt.count, tt.per); wait != 0 {
					t.Fatalf("delivery %d of a burst has to wait %s", i+1, wait)
				}
			}
			wait := take(t, l, source, tt.count, tt.per)
			if took := time.Since(start); wait > tt.longer || wait < tt.longer-took-10*time.Millisecond {
				t.Fatalf("the next has to wait %s after %s, want %s", wait, took, tt.longer)
			}
			if tt.longer > 2*time.Second {
				return
			}
			if other := take(t, l, stacktest.Source(t), tt.count, tt.per); other != 0 {
				t.Errorf("another source has to wait %s", other)
			}
			time.Sleep(wait) // on Redis' clock, which is ours
			if wait := take(t, l, source, tt.count, tt.per); wait != 0 {
				t.Errorf("has to wait %s more", wait)
			}
		})
	}
}

// TestTakeTogether has many processes take from one source at once: together
// they get a burst, and what the time of the test adds.
func TestTakeTogether(t *testing.T) {
	t.Parallel()
	const count, processes, each = 100, 8, 50 // a second
	source := stacktest.Source(t)
	var taken atomic.Int64
	var wg sync.WaitGroup
	barrier := make(chan struct{})
	limiters := make([]*rate.Limiter, processes)
	for i := range limiters {
		limiters[i] = rate.New(stacktest.RedisClient(t))
	}
	for _, l := range limiters {
		wg.Go(func() {
			<-barrier
			for range each {
				if wait, err := l.Take(t.Context(), source, count, time.Second); err == nil && wait == 0 {
					taken.Add(1)
				}
			}
		})
	}
	start := time.Now()
	close(barrier)
	wg.Wait()
	most := count + int64(time.Since(start).Seconds()*count) + 1
	if n := taken.Load(); n > most || n < count/2 {
		t.Errorf("%d were taken in %s, want %d at most", n, time.Since(start), most)
	}
}

// TestTakeClock has another clock behind Redis, as after a failover: what its
// key says of the far future holds nobody up for longer than an empty burst.
func TestTakeClock(t *testing.T) {
	t.Parallel()
	rdb, source := stacktest.RedisClient(t), stacktest.Source(t)
	for _, value := range []string{"9000000000000000", "nonsense", ""} {
		if err := rdb.Set(t.Context(), "hookonce:{"+source+"}:rate", value, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
		if wait := take(t, rate.New(rdb), source, 1, time.Second); wait > time.Second {
			t.Errorf("%q: has to wait %s", value, wait)
		}
	}
	if ttl := rdb.PTTL(t.Context(), "hookonce:{"+source+"}:rate").Val(); ttl <= 0 || ttl > time.Minute {
		t.Errorf("the key lives for %s", ttl)
	}
}

// TestTakeSilent has a Redis that takes connections and says nothing.
func TestTakeSilent(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rdb := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	start := time.Now()
	wait, err := rate.New(rdb).Take(t.Context(), "any", 1, time.Second)
	if took := time.Since(start); err == nil || wait != 0 || took > 2*time.Second {
		t.Errorf("Take = %s, %v after %s, want an error after 100ms", wait, err, took)
	}
	ln.Close()
	if _, err := rate.New(rdb).Take(t.Context(), "any", 1, time.Second); err == nil || errors.Is(err, redis.Nil) {
		t.Errorf("Take = %v, want an error", err)
	}
}
