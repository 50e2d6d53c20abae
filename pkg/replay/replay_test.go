package replay_test

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/replay"
)

func TestMain(m *testing.M) { os.Exit(stacktest.Main(m)) }

// run returns marks that are written, and what ends that.
func run(t *testing.T, rdb redis.UniversalClient, log io.Writer) (*replay.Marks, func()) {
	t.Helper()
	m := replay.New(rdb, slog.New(slog.NewTextHandler(log, nil)))
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Run(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
	})
	t.Cleanup(stop)
	return m, stop
}

func sum(s string) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// first asks until Redis says: the machine of a test may be slow.
func first(t *testing.T, m *replay.Marks, source, bytes string) string {
	t.Helper()
	for range 50 {
		if id, err := m.First(t.Context(), source, sum(bytes)); err == nil {
			return id
		}
	}
	t.Fatal("Redis does not say")
	return ""
}

func TestMarks(t *testing.T) {
	t.Parallel()
	rdb, source, other := stacktest.RedisClient(t), stacktest.Source(t), stacktest.Source(t)
	m, stop := run(t, rdb, io.Discard)
	if id := first(t, m, source, "a"); id != "" {
		t.Errorf("First of new bytes = %q", id)
	}
	m.Held(source, sum("a"), "d-1", time.Hour)
	if id := first(t, m, source, "a"); id != "d-1" { // at once
		t.Errorf("First = %q, want d-1", id)
	}
	m.Held(source, sum("a"), "d-2", time.Hour)
	stop()
	m, stop = run(t, rdb, io.Discard) // another process
	if id := first(t, m, source, "a"); id != "d-1" {
		t.Errorf("First = %q in another process, want d-1", id)
	}
	m.Held(source, sum("a"), "d-3", time.Hour)
	m.Held(source, sum("b"), "d-4", 24*time.Hour)
	stop()
	for bytes, want := range map[string]string{"a": "d-1", "b": "d-4", "c": ""} {
		if id := first(t, m, source, bytes); id != want {
			t.Errorf("First of %s = %q, want %q", bytes, id, want)
		}
	}
	if id := first(t, m, other, "a"); id != "" {
		t.Errorf("First of another source = %q", id)
	}
	for bytes, window := range map[string]time.Duration{"a": time.Hour, "b": 24 * time.Hour} {
		ttl := rdb.PTTL(t.Context(), fmt.Sprintf("hookonce:{%s}:replay:%x", source, sum(bytes))).Val()
		if ttl > window || ttl < window-time.Minute {
			t.Errorf("the mark of %s lives for %s, want %s", bytes, ttl, window)
		}
	}
}

// TestMarksTogether has many processes remember the same bytes under ids of
// their own: one of the ids is the first, for all and for good.
func TestMarksTogether(t *testing.T) {
	t.Parallel()
	const processes, rounds = 6, 20
	source := stacktest.Source(t)
	type one struct {
		*replay.Marks
		stop func()
	}
	var all []one
	for range processes {
		m, stop := run(t, stacktest.RedisClient(t), io.Discard)
		all = append(all, one{m, stop})
	}
	var wg sync.WaitGroup
	barrier := make(chan struct{})
	for i, m := range all {
		wg.Go(func() {
			<-barrier
			for round := range rounds {
				m.Held(source, sum(fmt.Sprint(round)), fmt.Sprint("d-", i), time.Hour)
			}
		})
	}
	close(barrier)
	wg.Wait()
	for _, m := range all {
		m.stop()
	}
	for round := range rounds {
		want := first(t, all[0].Marks, source, fmt.Sprint(round))
		for i, m := range all {
			if got := first(t, m.Marks, source, fmt.Sprint(round)); got != want || want == "" {
				t.Errorf("round %d: process %d knows %q, and the first %q", round, i, got, want)
			}
		}
	}
}

// TestMarksNotWritten has a Redis that says nothing: what could not be written
// is known no more, is logged without an id, and holds nobody up.
func TestMarksNotWritten(t *testing.T) {
	t.Parallel()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	rdb := redis.NewClient(&redis.Options{Addr: ln.Addr().String(), ContextTimeoutEnabled: true, MaxRetries: -1})
	defer rdb.Close()
	var log strings.Builder
	m, stop := run(t, rdb, &log)
	start := time.Now()
	if id, err := m.First(t.Context(), "any", sum("a")); err == nil || id != "" {
		t.Errorf("First = %q, %v, want an error", id, err)
	}
	for i := range 10_000 { // more than can wait
		m.Held("any", sum(fmt.Sprint(i)), "secret-id", time.Hour)
	}
	if took := time.Since(start); took > 2*time.Second {
		t.Errorf("took %s", took)
	}
	ln.Close()
	stop()
	if !strings.Contains(log.String(), "replays of some deliveries will not be known") || strings.Contains(log.String(), "secret-id") {
		t.Errorf("log:\n%s", log.String())
	}
}
