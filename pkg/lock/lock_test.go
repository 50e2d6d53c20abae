package lock_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/lock"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// dial returns a client as a worker's.
func dial(tb testing.TB, url string) *redis.Client {
	tb.Helper()
	o, err := redis.ParseURL(url)
	if err != nil {
		tb.Fatal(err)
	}
	o.ContextTimeoutEnabled, o.DisableIdentity = true, true
	o.DialTimeout, o.DialerRetries = 200*time.Millisecond, 1
	o.ReadTimeout, o.WriteTimeout, o.MaxRetries = 10*time.Second, 10*time.Second, 1
	rdb := redis.NewClient(o)
	tb.Cleanup(func() { rdb.Close() })
	return rdb
}

func key(source, id string) string { return "hookonce:{" + source + "}:lock:" + id }

func acquire(t *testing.T, l *lock.Redis, source, id string) func(context.Context) error {
	t.Helper()
	release, err := l.Acquire(t.Context(), source, id, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	return release
}

// wantBusy wants somebody else to hold the lock, for as long as least to most.
func wantBusy(t *testing.T, l *lock.Redis, source, id string, least, most time.Duration) {
	t.Helper()
	release, err := l.Acquire(t.Context(), source, id, time.Minute)
	busy, ok := errors.AsType[*webhook.BusyError](err)
	if !ok || release != nil {
		t.Fatalf("Acquire = %v, want a BusyError", err)
	}
	if busy.After < least || busy.After > most {
		t.Errorf("busy for %s, want %s to %s", busy.After, least, most)
	}
	if errors.Is(err, webhook.ErrUnavailable) {
		t.Error("busy is unavailable, too")
	}
}

func TestAcquire(t *testing.T) {
	t.Parallel()
	rdb, source := dial(t, stacktest.Redis(t)), stacktest.Source(t)
	l, other := lock.New(rdb), lock.New(dial(t, stacktest.Redis(t)))
	release := acquire(t, l, source, "evt_1")
	if ttl := rdb.PTTL(t.Context(), key(source, "evt_1")).Val(); ttl < 50*time.Second || ttl > time.Minute {
		t.Errorf("the lock lives for %s, want a minute", ttl)
	}
	wantBusy(t, l, source, "evt_1", 50*time.Second, time.Minute)
	wantBusy(t, other, source, "evt_1", 50*time.Second, time.Minute)
	acquire(t, other, source, "evt_2")
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	acquire(t, other, source, "evt_1")
}

func TestAcquireBusyFor(t *testing.T) {
	t.Parallel()
	rdb, source := dial(t, stacktest.Redis(t)), stacktest.Source(t)
	l := lock.New(rdb)
	acquire(t, l, source, "evt_1")
	rdb.PExpire(t.Context(), key(source, "evt_1"), 5*time.Second)
	wantBusy(t, l, source, "evt_1", time.Second, 5*time.Second)
	rdb.Persist(t.Context(), key(source, "evt_1")) // not ours to explain, but not forever either
	wantBusy(t, l, source, "evt_1", time.Millisecond, time.Millisecond)
}

func TestAcquireRace(t *testing.T) {
	t.Parallel()
	source := stacktest.Source(t)
	l := lock.New(dial(t, stacktest.Redis(t)))
	var held, busy atomic.Int32
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			<-start
			_, err := l.Acquire(t.Context(), source, "evt_1", time.Minute)
			if _, ok := errors.AsType[*webhook.BusyError](err); ok {
				busy.Add(1)
			} else if err == nil {
				held.Add(1)
			} else {
				t.Error(err)
			}
		})
	}
	close(start)
	wg.Wait()
	if held.Load() != 1 || busy.Load() != 49 {
		t.Errorf("%d hold the lock and %d do not, want 1 and 49", held.Load(), busy.Load())
	}
}

// Who outlived his lock does not give back another's.
func TestReleaseOnlyOwn(t *testing.T) {
	t.Parallel()
	rdb, source := dial(t, stacktest.Redis(t)), stacktest.Source(t)
	l := lock.New(rdb)
	late := acquire(t, l, source, "evt_1")
	if n := rdb.Del(t.Context(), key(source, "evt_1")).Val(); n != 1 { // as if its time were over
		t.Fatalf("%d locks deleted", n)
	}
	release := acquire(t, l, source, "evt_1")
	for range 2 {
		if err := late(t.Context()); err != nil {
			t.Error(err)
		}
	}
	wantBusy(t, l, source, "evt_1", 50*time.Second, time.Minute)
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	if n := rdb.Exists(t.Context(), key(source, "evt_1")).Val(); n != 0 {
		t.Error("the lock is left after its release")
	}
	if err := late(t.Context()); err != nil {
		t.Errorf("release of a lock that is gone: %v", err)
	}
}

func TestReleaseAfterContext(t *testing.T) {
	t.Parallel()
	rdb, source := dial(t, stacktest.Redis(t)), stacktest.Source(t)
	ctx, cancel := context.WithCancel(t.Context())
	release, err := lock.New(rdb).Acquire(ctx, source, "evt_1", time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := release(ctx); err != nil {
		t.Error(err)
	}
	if n := rdb.Exists(t.Context(), key(source, "evt_1")).Val(); n != 0 {
		t.Error("the lock is left after its release")
	}
}

func TestAcquireEndedContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	release, err := lock.New(dial(t, stacktest.Redis(t))).Acquire(ctx, stacktest.Source(t), "evt_1", time.Minute)
	if !errors.Is(err, webhook.ErrUnavailable) || release != nil {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
}

// wantUnavailable wants Acquire to give up within a second.
func wantUnavailable(t *testing.T, rdb *redis.Client) {
	t.Helper()
	start := time.Now()
	release, err := lock.New(rdb).Acquire(t.Context(), "any", "evt_1", time.Minute)
	if took := time.Since(start); took > 1200*time.Millisecond {
		t.Errorf("Acquire took %s", took)
	}
	if _, busy := errors.AsType[*webhook.BusyError](err); busy || !errors.Is(err, webhook.ErrUnavailable) || release != nil {
		t.Errorf("Acquire = %v, want ErrUnavailable", err)
	}
}

func TestAcquireNoRedis(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close() // from now on connections are refused
	wantUnavailable(t, dial(t, "redis://"+ln.Addr().String()))
}

func TestPausedRedis(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{DatabaseURL: "postgres://127.0.0.1:1/none"})
	rdb := dial(t, stack.RedisURL)
	release := acquire(t, lock.New(rdb), "source", "evt_0")
	if err := stack.Redis.Pause(); err != nil {
		t.Fatal(err)
	}
	wantUnavailable(t, rdb)                     // on the connection that is there
	wantUnavailable(t, dial(t, stack.RedisURL)) // on a new one
	start := time.Now()
	if err := release(t.Context()); err == nil {
		t.Error("release succeeds without Redis")
	}
	if took := time.Since(start); took > 1200*time.Millisecond {
		t.Errorf("release took %s", took)
	}
	if err := stack.Redis.Resume(); err != nil {
		t.Fatal(err)
	}
}

// The client asks again if the connection breaks before the answer. The lock
// that is then found is ours.
func TestAcquireLostAnswer(t *testing.T) {
	t.Parallel()
	source := stacktest.Source(t)
	direct, viaProxy := dial(t, stacktest.Redis(t)), dial(t, stacktest.LoseAnswer(t, stacktest.Redis(t), "\r\nset\r\n", true))
	release := acquire(t, lock.New(viaProxy), source, "evt_1")
	wantBusy(t, lock.New(direct), source, "evt_1", 50*time.Second, time.Minute)
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
	acquire(t, lock.New(direct), source, "evt_1")
}

// Another's lock is not taken for ours after a lost answer.
func TestAcquireLostRefusal(t *testing.T) {
	t.Parallel()
	source := stacktest.Source(t)
	direct, viaProxy := dial(t, stacktest.Redis(t)), dial(t, stacktest.LoseAnswer(t, stacktest.Redis(t), "\r\nset\r\n", true))
	acquire(t, lock.New(direct), source, "evt_1")
	wantBusy(t, lock.New(viaProxy), source, "evt_1", 50*time.Second, time.Minute)
}

// All keys of a source must be in one slot of a cluster: Redis hashes what is
// between the first brace and the next closing one.
func TestKey(t *testing.T) {
	t.Parallel()
	rdb, source := dial(t, stacktest.Redis(t)), stacktest.Source(t)
	for _, id := range []string{"evt_1", "a/b", "a b", "{x}", "}{", "{", "}x{y}", "{}", "🙂", "a\x00b", ":lock:", strings.Repeat("x", 255)} {
		acquire(t, lock.New(rdb), source, id)
		k := key(source, id)
		if n := rdb.Exists(t.Context(), k).Val(); n != 1 {
			t.Errorf("no key %q", k)
		}
		if got := hashTag(k); got != source {
			t.Errorf("the slot of %q is that of %q, want the source's", k, got)
		}
	}
	if n := len(rdb.Keys(t.Context(), key(source, "*")).Val()); n != 12 {
		t.Errorf("%d locks, want 12", n)
	}
	other := stacktest.Source(t)
	acquire(t, lock.New(rdb), other, "evt_1") // the same id of another source is another lock
}

// hashTag is the part of a key that decides its slot, as the cluster
// specification has it.
func hashTag(k string) string {
	_, rest, ok := strings.Cut(k, "{")
	if !ok {
		return k
	}
	tag, _, ok := strings.Cut(rest, "}")
	if !ok || tag == "" {
		return k
	}
	return tag
}
