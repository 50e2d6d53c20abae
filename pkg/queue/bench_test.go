package queue_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// BenchmarkEnqueue has 128 deliveries wait at once, as the table of BENCH.md
// does. It also reports what Redis' own thread did for each.
func BenchmarkEnqueue(b *testing.B) {
	for _, bb := range []struct {
		name    string
		sources int
		id      func() string
	}{
		{"new", 1, rand.Text},
		{"new, of 50 sources", 50, rand.Text},
		{"duplicate", 1, func() string { return "evt_1" }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			rdb, err := queue.Dial(stacktest.Redis(b), queue.IngestProfile(time.Second))
			if err != nil {
				b.Fatal(err)
			}
			defer rdb.Close()
			var next atomic.Int64
			names, settings := make([]string, bb.sources), map[string]queue.Settings{}
			for i := range names {
				names[i] = stacktest.Source(b)
				settings[names[i]] = queue.Settings{Timeout: 15 * time.Second, Retention: time.Minute}
			}
			c := queue.NewClient(rdb, settings)
			body := make([]byte, 500)
			used := func() (us float64) {
				var user, sys float64
				info := rdb.InfoMap(context.Background(), "cpu").Val()["CPU"]
				fmt.Sscan(info["used_cpu_user_main_thread"], &user)
				fmt.Sscan(info["used_cpu_sys_main_thread"], &sys)
				return 1e6 * (user + sys)
			}
			before := used()
			b.ReportAllocs()
			b.SetParallelism(64)
			b.ResetTimer() // the stack may just have been started
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					source := names[int(next.Add(1))%len(names)]
					ev := webhook.Event{Source: source, ID: bb.id(), Type: "a.b", Delivery: rand.Text(), ReceivedAt: time.Now(), Body: body}
					ctx, cancel := context.WithTimeout(context.Background(), time.Second)
					if _, err := c.Enqueue(ctx, ev); err != nil {
						b.Error(err)
					}
					cancel()
				}
			})
			b.ReportMetric((used()-before)/float64(b.N), "redis-µs/op")
		})
	}
}

// BenchmarkEnqueueKeys sends for events in batches, as ingest does for its inbox.
func BenchmarkEnqueueKeys(b *testing.B) {
	rdb, err := queue.Dial(stacktest.Redis(b), queue.IngestProfile(time.Second))
	if err != nil {
		b.Fatal(err)
	}
	defer rdb.Close()
	source := stacktest.Source(b)
	c := queue.NewClient(rdb, map[string]queue.Settings{source: {Timeout: 15 * time.Second, Retention: time.Minute}})
	const batch = 50
	b.ReportAllocs()
	b.ResetTimer() // the stack may just have been started
	for left := b.N; left > 0; left -= batch {
		events := make([]webhook.Event, min(left, batch))
		for i := range events {
			events[i] = webhook.Event{Source: source, ID: rand.Text(), Type: "a.b", Delivery: rand.Text(), ReceivedAt: time.Now()}
		}
		for _, err := range c.EnqueueKeys(b.Context(), events) {
			if err != nil {
				b.Fatal(err)
			}
		}
	}
}

// BenchmarkEncode packs an event into a task.
func BenchmarkEncode(b *testing.B) {
	ev := webhook.Event{
		Source: "shop", ID: "evt_1", Type: "a.b", Delivery: rand.Text(), ContentType: "application/json",
		Headers: map[string]string{"X-Kept": "1"}, ReceivedAt: time.Now(), Body: make([]byte, 500),
	}
	b.ReportAllocs()
	for b.Loop() {
		if msg := queue.Encode(ev, false, ev.ID, queue.Settings{Timeout: time.Second}); len(msg) < len(ev.Body) {
			b.Fatal(msg)
		}
	}
}
