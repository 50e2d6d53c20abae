package lock_test

import (
	"context"
	"crypto/rand"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/lock"
)

// A bench op is a lock taken and given back, 16 at once as in a worker.
func BenchmarkLock(b *testing.B) {
	l := lock.New(dial(b, stacktest.Redis(b)))
	source := stacktest.Source(b)
	b.ReportAllocs()
	b.SetParallelism(8)
	b.ResetTimer() // the stack may just have been started
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			release, err := l.Acquire(context.Background(), source, rand.Text(), time.Minute)
			if err == nil {
				err = release(context.Background())
			}
			if err != nil {
				b.Error(err)
				return
			}
		}
	})
}
