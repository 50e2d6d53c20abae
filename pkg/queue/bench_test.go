package queue_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// BenchmarkEnqueue has 128 deliveries wait at once, as the table of BENCH.md
// does. It also reports what Redis' own thread did for each.
func BenchmarkEnqueue(b *testing.B) {
	for name, id := range map[string]func() string{
		"new":       rand.Text,
		"duplicate": func() string { return "evt_1" },
	} {
		b.Run(name, func(b *testing.B) {
			rdb, err := queue.Dial(stacktest.Redis(b), queue.IngestProfile(time.Second))
			if err != nil {
				b.Fatal(err)
			}
			defer rdb.Close()
			source := stacktest.Source(b)
			c := queue.NewClient(rdb, map[string]queue.Settings{source: {Timeout: 15 * time.Second, Retention: time.Minute}})
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
					ev := webhook.Event{Source: source, ID: id(), Type: "a.b", Delivery: rand.Text(), ReceivedAt: time.Now(), Body: body}
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
