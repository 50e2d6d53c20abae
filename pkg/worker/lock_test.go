package worker_test

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/lock"
	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

func TestLockBusy(t *testing.T) {
	t.Parallel()
	for after, want := range map[time.Duration]string{
		12500 * time.Millisecond: "again in 12.5s",
		time.Second:              "again in 1s",
		20 * time.Millisecond:    "again in 1s",
		0:                        "again in 1s",
	} {
		t.Run(after.String(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.lock.err = &webhook.BusyError{After: after}
			got, report := r.process(t.Context())
			if wantReport := (worker.Report{Source: "shop", Outcome: worker.LockBusy}); got != want || report != wantReport {
				t.Errorf("Process = %s, %+v, want %s, %+v", got, report, want, wantReport)
			}
			if len(r.store.claims) != 0 {
				t.Error("the store was asked")
			}
		})
	}
}

func TestLockUnavailable(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.lock.err = errAway
	if got, report := r.process(t.Context()); got != "done" || report.Outcome != worker.Completed || !report.LockSkipped {
		t.Errorf("Process = %s, %+v, want it to go on without the lock", got, report)
	}
}

func TestLockReleaseFails(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.lock.releaseErr = errAway
	if got, report := r.process(t.Context()); got != "done" || report.LockSkipped {
		t.Errorf("Process = %s, %+v, want the failure to be left to the lock's time to live", got, report)
	}
}

// TestLockReleased has each way out of an attempt; process looks at the lock.
func TestLockReleased(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		answer  webhook.Claim
		handle  func(context.Context) error
		outcome worker.Outcome
	}{
		{"success", mine(1, 0), func(context.Context) error { return nil }, worker.Completed},
		{"error", mine(1, 0), func(context.Context) error { return errBoom }, worker.Failed},
		{"death", mine(1, 0), func(context.Context) error { return webhook.Permanent(errBoom) }, worker.Dead},
		{"panic", mine(1, 0), func(context.Context) error { panic("boom") }, worker.Failed},
		{"timeout", mine(1, 0), func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, worker.Failed},
		{"fenced", mine(1, 0), func(context.Context) error { return webhook.ErrFenced }, worker.Fenced},
		{"not mine", webhook.Claim{Status: webhook.Completed}, nil, worker.Duplicate},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.handle)
				r.store.answer = tt.answer
				if got, report := r.process(t.Context()); report.Outcome != tt.outcome {
					t.Errorf("Process = %s, %+v, want %s", got, report, tt.outcome)
				}
				if r.lock.acquired != 1 || r.lock.released != 1 {
					t.Errorf("acquired %d times, released %d times", r.lock.acquired, r.lock.released)
				}
			})
		})
	}
}

// TestRealLock keeps a second worker away while the first is at work, and is
// free again though the first one's context has ended.
func TestRealLock(t *testing.T) {
	t.Parallel()
	options, err := redis.ParseURL(stacktest.Redis(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(options)
	t.Cleanup(func() { rdb.Close() })
	ev := event("e-1", `{}`)
	ev.Source = stacktest.Source(t)

	ctx, stop := context.WithCancelCause(t.Context())
	var second worker.Report
	first := newRig(t, func(ctx context.Context) error {
		other := &worker.Worker{
			Name: "other", Lock: lock.New(rdb), Store: &fakeStore{}, Log: slog.New(slog.DiscardHandler),
			Terms:   map[string]webhook.Terms{ev.Source: terms},
			Observe: func(r worker.Report) { second = r },
		}
		err := other.Process(ctx, ev, 0)
		stop(webhook.ErrShutdown)
		return err
	})
	first.Lock, first.Terms = lock.New(rdb), map[string]webhook.Terms{ev.Source: terms}
	if got := told(first.Process(ctx, ev, 0)); got != "again in 0s" {
		t.Errorf("Process of the first = %s", got)
	}
	if second.Outcome != worker.LockBusy {
		t.Errorf("the second's outcome is %s, want %s", second.Outcome, worker.LockBusy)
	}
	release, err := lock.New(rdb).Acquire(t.Context(), ev.Source, ev.ID, time.Second)
	if err != nil {
		t.Fatalf("Acquire after Process = %v", err)
	}
	if err := release(t.Context()); err != nil {
		t.Error(err)
	}
}
