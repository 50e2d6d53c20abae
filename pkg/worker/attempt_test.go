package worker_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

// A nilError is a mistake that is easy to make: a nil pointer that is an error.
type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

func untilItsEnd(ctx context.Context) error {
	<-ctx.Done()
	return ctx.Err()
}

// deep wraps a permanent error, as handlers with layers of their own do.
func deep(context.Context) error {
	return errors.Join(errBoom, fmt.Errorf("pay: %w", fmt.Errorf("book: %w", webhook.Permanent(errBoom))))
}

// TestAttempt has what a handler may do. The back-off draws half its bound.
func TestAttempt(t *testing.T) {
	t.Parallel()
	const received, failed, dead = webhook.Received, webhook.Failed, webhook.Dead
	tests := []struct {
		name   string
		claim  webhook.Claim
		handle func(context.Context) error
		want   string
		status webhook.Status // "": not settled
		kind   webhook.Kind
		reason string
	}{
		{"success", mine(1, 0), nil, "done", "", "", ""},
		{"error", mine(1, 0), func(context.Context) error { return errBoom }, "failed, again in 1s", failed, webhook.KindError, "boom"},
		{"third error of a large budget", mine(9, 7), func(context.Context) error { return errBoom }, "failed, again in 2s", failed, webhook.KindError, "boom"},
		{"error of the last try", mine(3, 0), func(context.Context) error { return errBoom }, "dead at attempt 3", dead, webhook.KindError, "boom"},
		{"error of the last try after a revival", mine(10, 7), func(context.Context) error { return errBoom }, "dead at attempt 10", dead, webhook.KindError, "boom"},
		{"permanent", mine(1, 0), deep, "dead at attempt 1", dead, webhook.KindPermanent, "boom"},
		{"permanent nil", mine(1, 0), func(context.Context) error { return webhook.Permanent(nil) }, "done", "", "", ""},
		{"panic", mine(1, 0), func(context.Context) error { panic("Ouch") }, "failed, again in 1s", failed, webhook.KindPanic, "panic: Ouch"},
		{"panic in the last try", mine(3, 0), func(context.Context) error { panic("Ouch") }, "dead at attempt 3", dead, webhook.KindPanic, "panic: Ouch"},
		{"panic with a permanent error", mine(1, 0), func(context.Context) error { panic(webhook.Permanent(errBoom)) }, "failed, again in 1s", failed, webhook.KindPanic, "panic: boom"},
		{"panic(nil)", mine(1, 0), func(context.Context) error { panic(nil) }, "failed, again in 1s", failed, webhook.KindPanic, "panic called with nil"},
		{"nil pointer as an error", mine(1, 0), func(context.Context) error { return (*nilError)(nil) }, "failed, again in 1s", failed, webhook.KindPanic, "nil pointer"},
		{"Goexit", mine(1, 0), func(context.Context) error { runtime.Goexit(); return nil }, "failed, again in 1s", failed, webhook.KindError, "ended its goroutine"},
		{"deadline", mine(1, 0), untilItsEnd, "failed, again in 1s", failed, webhook.KindTimeout, "deadline of the attempt"},
		{"deadline of the last try", mine(3, 0), untilItsEnd, "dead at attempt 3", dead, webhook.KindTimeout, "deadline of the attempt"},
		{"panic at the deadline", mine(1, 0), func(ctx context.Context) error { panic(untilItsEnd(ctx)) }, "failed, again in 1s", failed, webhook.KindPanic, "panic"},
		{"permanent at the deadline", mine(1, 0), func(ctx context.Context) error { return webhook.Permanent(untilItsEnd(ctx)) }, "dead at attempt 1", dead, webhook.KindPermanent, ""},
		{"success after the deadline", mine(1, 0), func(ctx context.Context) error { untilItsEnd(ctx); return nil }, "done", "", "", ""}, // it is the store that refuses
		{"deadline of the handler's own", mine(1, 0), func(context.Context) error { return context.DeadlineExceeded }, "failed, again in 1s", failed, webhook.KindError, ""},
		{"database away", mine(1, 0), func(context.Context) error { return errAway }, "again after the outage", received, webhook.KindUnavailable, "no route"},
		{"database away in the last try", mine(3, 0), func(context.Context) error { return errAway }, "again after the outage", received, webhook.KindUnavailable, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.handle)
				r.store.answer = tt.claim
				got, report := r.process(t.Context())
				if got != tt.want || report.Kind != tt.kind {
					t.Errorf("Process = %s, %+v, want %s, %q", got, report, tt.want, tt.kind)
				}
				if r.runs != 1 {
					t.Errorf("handler ran %d times", r.runs)
				}
				r.wantVerdict(tt.status, tt.kind, tt.reason)
				if want := outcomes[tt.status]; report.Outcome != want {
					t.Errorf("outcome %s, want %s", report.Outcome, want)
				}
			})
		})
	}
}

// outcomes are those of an attempt, by what it was settled as.
var outcomes = map[webhook.Status]worker.Outcome{
	"":               worker.Completed,
	webhook.Failed:   worker.Failed,
	webhook.Dead:     worker.Dead,
	webhook.Received: worker.GivenBack,
}

// wantVerdict wants the attempt settled once, or not if status is "".
func (r *rig) wantVerdict(status webhook.Status, kind webhook.Kind, reason string) {
	r.t.Helper()
	if status == "" {
		if len(r.store.settledSoFar()) != 0 {
			r.t.Errorf("settled: %+v", r.store.settledSoFar())
		}
		return
	}
	if len(r.store.settledSoFar()) != 1 {
		r.t.Fatalf("settled %d times, want once: %+v", len(r.store.settledSoFar()), r.store.settledSoFar())
	}
	v := r.store.settledSoFar()[0]
	if v.Status != status || v.Kind != kind || !strings.Contains(v.Reason, reason) {
		r.t.Errorf("settled as %+v, want %s, %s, %q", v, status, kind, reason)
	}
	if (v.Delay > 0) != (status == webhook.Failed) {
		r.t.Errorf("delay of %s is %s", status, v.Delay)
	}
}

// TestPanicStack is for the log, where a person finds the line; what is stored
// and shown has the panic's words alone.
func TestPanicStack(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(context.Context) error { panic("Ouch") })
	err := r.Process(t.Context(), event("e-1", `{}`), 0)
	if err == nil || strings.Contains(err.Error(), "goroutine") {
		t.Errorf("Process = %v, want no stack in it", err)
	}
	if reason := r.store.settledSoFar()[0].Reason; reason != "panic: Ouch" {
		t.Errorf("reason %q", reason)
	}
	if log := r.log.String(); !strings.Contains(log, "TestPanicStack") || !strings.Contains(log, "attempt_test.go") {
		t.Errorf("no stack in the log: %s", log)
	}
}

// TestStuck frees the slot of a handler that ignores its context, when the
// store has cut its connection.
func TestStuck(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		end := make(chan struct{})
		defer close(end)
		r := newRig(t, func(context.Context) error { <-end; return nil })
		start := time.Now()
		if got, report := r.process(t.Context()); got != "failed, again in 1s" || report.Kind != webhook.KindStuck {
			t.Errorf("Process = %s, %+v", got, report)
		}
		r.wantVerdict(webhook.Failed, webhook.KindStuck, "does not watch its context")
		if took, want := time.Since(start), terms.Lease(); took != want {
			t.Errorf("took %s, want %s", took, want)
		}
	})
}

// TestShutdown gives the event back, whatever the handler made of it: what it
// says of a context that was taken from it says nothing of the event.
func TestShutdown(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		handle func(context.Context) error
	}{
		{"returns the context's error", untilItsEnd},
		{"returns an error of its own", func(ctx context.Context) error { untilItsEnd(ctx); return errBoom }},
		{"says that it is permanent", func(ctx context.Context) error { return webhook.Permanent(untilItsEnd(ctx)) }},
		{"panics", func(ctx context.Context) error { panic(untilItsEnd(ctx)) }},
		{"finds the database away", func(ctx context.Context) error { untilItsEnd(ctx); return errAway }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, tt.handle)
				r.store.answer = mine(3, 0) // the last try
				ctx, stop := context.WithCancelCause(t.Context())
				defer time.AfterFunc(time.Second, func() { stop(webhook.ErrShutdown) }).Stop()
				if got, report := r.process(ctx); got != "again in 0s" || report.Outcome != worker.GivenBack || report.Kind != webhook.KindShutdown {
					t.Errorf("Process = %s, %+v", got, report)
				}
				r.wantVerdict(webhook.Received, webhook.KindShutdown, webhook.ErrShutdown.Error())
			})
		})
	}
}

// TestShutdownAfterSuccess has a handler that is done when the shutdown comes.
func TestShutdownAfterSuccess(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancelCause(t.Context())
	r := newRig(t, func(context.Context) error { stop(webhook.ErrShutdown); return nil })
	if got, report := r.process(ctx); got != "done" || report.Outcome != worker.Completed {
		t.Errorf("Process = %s, %+v", got, report)
	}
}

// TestShutdownAfterDeadline has a handler that was late before the shutdown.
func TestShutdownAfterDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, stop := context.WithCancelCause(t.Context())
		r := newRig(t, func(ctx context.Context) error { <-ctx.Done(); stop(webhook.ErrShutdown); return ctx.Err() })
		if got, _ := r.process(ctx); got != "failed, again in 1s" {
			t.Errorf("Process = %s", got)
		}
		r.wantVerdict(webhook.Failed, webhook.KindTimeout, "")
	})
}

// TestCalledOff has a context that the queue ended without a shutdown, as it
// does when Redis was away for longer than the task's lease there.
func TestCalledOff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		err    error
		want   string
		status webhook.Status
		kind   webhook.Kind
	}{
		{"costs nothing", context.Canceled, "again after the outage", webhook.Received, webhook.KindUnavailable},
		{"does not make the dead alive", webhook.Permanent(errBoom), "dead at attempt 1", webhook.Dead, webhook.KindPermanent},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			r := newRig(t, func(context.Context) error { cancel(); return tt.err })
			if got, _ := r.process(ctx); got != tt.want {
				t.Errorf("Process = %s, want %s", got, tt.want)
			}
			r.wantVerdict(tt.status, tt.kind, "")
		})
	}
}

func TestFenced(t *testing.T) {
	t.Parallel()
	r := newRig(t, func(context.Context) error { return fmt.Errorf("commit: %w", webhook.ErrFenced) })
	if got, report := r.process(t.Context()); got != "again in 1s" || report.Outcome != worker.Fenced {
		t.Errorf("Process = %s, %+v", got, report)
	}
	r.wantVerdict("", "", "")
}

// TestOtherBodyOfAClaim keeps the task's body before the handler sees the other.
func TestOtherBodyOfAClaim(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.store.answer.OtherBody = true
	if got, report := r.process(t.Context()); got != "done" || !report.OtherBody || len(r.store.kept) != 1 || r.runs != 1 {
		t.Errorf("Process = %s, %+v, kept %d, ran %d times", got, report, len(r.store.kept), r.runs)
	}
}

// TestOtherBodyOfAClaimNotKept costs the event nothing, since no handler ran.
func TestOtherBodyOfAClaimNotKept(t *testing.T) {
	t.Parallel()
	for _, err := range []error{errBoom, errAway} {
		t.Run(err.Error(), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.store.answer = mine(3, 0)
			r.store.answer.OtherBody = true
			r.store.keepErr = err
			if got, report := r.process(t.Context()); got != "again after the outage" || report.Outcome != worker.GivenBack || r.runs != 0 {
				t.Errorf("Process = %s, %+v, ran %d times", got, report, r.runs)
			}
			r.wantVerdict(webhook.Received, webhook.KindUnavailable, err.Error())
		})
	}
}

// TestSettle has what the store may say of a verdict.
func TestSettle(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		handler error
		status  webhook.Status
		err     error
		want    string
		outcome worker.Outcome
	}{
		{"recorded", errBoom, webhook.Failed, nil, "failed, again in 1s", worker.Failed},
		{"the commit had arrived", errAway, webhook.Completed, nil, "done", worker.Completed},
		{"the commit had arrived though it failed", errBoom, webhook.Completed, nil, "done", worker.Completed},
		{"overtaken", errBoom, "", webhook.ErrFenced, "again in 1s", worker.Fenced},
		{"overtaken in a cut", errAway, "", webhook.ErrFenced, "again in 1s", worker.Fenced},
		{"refused", errBoom, "", errors.New("disk on fire"), "again after the outage", worker.GivenBack},
		{"refused to die", webhook.Permanent(errBoom), "", errors.New("disk on fire"), "again after the outage", worker.GivenBack},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, func(context.Context) error { return tt.handler })
			r.store.settled, r.store.settleErr = tt.status, tt.err
			if got, report := r.process(t.Context()); got != tt.want || report.Outcome != tt.outcome {
				t.Errorf("Process = %s, %+v, want %s, %s", got, report, tt.want, tt.outcome)
			}
			if len(r.store.settledSoFar()) != 1 {
				t.Errorf("settled %d times, want once", len(r.store.settledSoFar()))
			}
		})
	}
}

// TestSettleAway keeps the outcome while Postgres is away, at a shutdown too,
// and lets go of the task when patience ends, but not of the outcome.
func TestSettleAway(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		away     int
		want     string
		min, max int // how often Settle is called
	}{
		{"for a while", 7, "again in 0s", 8, 8},
		{"for longer than patience", 1000, "again after the outage", 15, 17},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancelCause(t.Context())
				r := newRig(t, nil)
				r.Attempt = func(ctx context.Context, _ webhook.Claim) error {
					r.store.setAway(tt.away)
					stop(webhook.ErrShutdown)
					return ctx.Err()
				}
				if got, report := r.process(ctx); got != tt.want || report.Outcome != worker.GivenBack {
					t.Errorf("Process = %s, %+v, want %s", got, report, tt.want)
				}
				synctest.Wait()
				if n := len(r.store.settledSoFar()); n < tt.min || n > tt.max {
					t.Errorf("settled %d times, want %d to %d", n, tt.min, tt.max)
				}
				r.store.setAway(0) // it is back, and what was kept is recorded
				time.Sleep(time.Minute)
				synctest.Wait()
				if n := len(r.store.settledSoFar()); tt.away > tt.max && r.store.settledSoFar()[n-1].Kind != webhook.KindShutdown {
					t.Errorf("recorded %+v in the end, want the verdict", r.store.settledSoFar()[n-1])
				}
			})
		})
	}
}

// TestReportTimes has the waiting time of an event's first attempt only.
func TestReportTimes(t *testing.T) {
	t.Parallel()
	for attempt, wait := range map[int]time.Duration{1: 4 * time.Second, 2: 0} {
		t.Run(fmt.Sprint(attempt), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(context.Context) error { time.Sleep(3 * time.Second); return nil })
				r.store.answer = mine(attempt, 0)
				r.store.setAway(4) // a second each
				_, report := r.process(t.Context())
				if report.Wait != wait || report.Handler != 3*time.Second {
					t.Errorf("%+v, want %s and 3s", report, wait)
				}
			})
		})
	}
}
