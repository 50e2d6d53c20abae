package worker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
	"github.com/hookonce/hookonce/pkg/worker"
)

// TestStanding has every state of an event that is not the task's to run.
func TestStanding(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		claim   webhook.Claim
		want    string
		outcome worker.Outcome
	}{
		{"completed", webhook.Claim{Status: webhook.Completed, Attempt: 3}, "done", worker.Duplicate},
		{"processing, lease live", webhook.Claim{Status: webhook.Processing, Wait: 12500 * time.Millisecond}, "again in 12.5s", worker.NotDue},
		{"processing, lease nearly over", webhook.Claim{Status: webhook.Processing, Wait: 20 * time.Millisecond}, "again in 1s", worker.NotDue},
		{"failed, not due", webhook.Claim{Status: webhook.Failed, Wait: 3 * time.Hour}, "again in 3h0m0s", worker.NotDue},
		{"failed, nearly due", webhook.Claim{Status: webhook.Failed, Wait: 0}, "again in 1s", worker.NotDue},
		{"dead", webhook.Claim{Status: webhook.Dead, Attempt: 25}, "leftover of attempt 25", worker.Leftover},
	}
	for _, tt := range tests {
		for _, other := range []bool{false, true} {
			name := tt.name
			if other {
				name += ", other body"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t, nil)
				r.store.answer = tt.claim
				r.store.answer.OtherBody = other
				got, report := r.process(t.Context())
				want := worker.Report{Source: "shop", Outcome: tt.outcome, OtherBody: other}
				if got != tt.want || report != want {
					t.Errorf("Process = %s, %+v, want %s, %+v", got, report, tt.want, want)
				}
				if r.runs != 0 {
					t.Errorf("handler ran %d times", r.runs)
				}
				if kept := len(r.store.kept) == 1; kept != other {
					t.Errorf("kept %d other bodies", len(r.store.kept))
				}
			})
		}
	}
}

// TestStandingOtherBodyNotKept sends the task back, whatever state the event is
// in: a body that is not kept would be lost with the task.
func TestStandingOtherBodyNotKept(t *testing.T) {
	t.Parallel()
	for _, status := range []webhook.Status{webhook.Completed, webhook.Processing, webhook.Failed, webhook.Dead} {
		t.Run(string(status), func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.store.answer = webhook.Claim{Status: status, OtherBody: true, Spent: status == webhook.Processing}
			r.store.keepErr = errBoom
			if got, report := r.process(t.Context()); got != "again after the outage" || report.Outcome != worker.GivenBack {
				t.Errorf("Process = %s, %+v", got, report)
			}
			if len(r.store.burials) != 0 {
				t.Error("buried nevertheless")
			}
		})
	}
}

// TestSpent has an event whose last allowed attempt was lost with its worker.
func TestSpent(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		buried bool
		err    error
		want   string
		report worker.Report
	}{
		{"buried", true, nil, "dead at attempt 3", worker.Report{Source: "shop", Outcome: worker.Dead, Kind: webhook.KindLost}},
		{"moved on meanwhile", false, nil, "again in 1s", worker.Report{Source: "shop", Outcome: worker.NotDue}},
		{"database away", false, errAway, "again in 1s", worker.Report{Source: "shop", Outcome: worker.NotDue}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.store.answer = webhook.Claim{Status: webhook.Processing, Attempt: 3, Spent: true}
			r.store.buried, r.store.buryErr = tt.buried, tt.err
			got, report := r.process(t.Context())
			if got != tt.want || report != tt.report {
				t.Errorf("Process = %s, %+v, want %s, %+v", got, report, tt.want, tt.report)
			}
			if len(r.store.burials) != 1 || r.store.burials[0] != 3 {
				t.Errorf("buried attempts %v, want 3", r.store.burials)
			}
			if r.runs != 0 {
				t.Error("the handler ran")
			}
		})
	}
}

func TestClaimFails(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		err    error
		want   string
		report worker.Report
	}{
		{"row busy", &webhook.BusyError{After: 3 * time.Second}, "again in 3s", worker.Report{Source: "shop", Outcome: worker.NotDue}},
		{"no row for a task with only a key", fmt.Errorf("claim: %w", webhook.ErrNotFound), "done", worker.Report{Source: "shop", Outcome: worker.NoRow}},
		{"refused", errBoom, "again after the outage", worker.Report{Source: "shop", Outcome: worker.GivenBack, Kind: webhook.KindUnavailable}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, nil)
			r.store.claimErr = tt.err
			if got, report := r.process(t.Context()); got != tt.want || report != tt.report {
				t.Errorf("Process = %s, %+v, want %s, %+v", got, report, tt.want, tt.report)
			}
			if len(r.store.claims) != 1 || r.runs != 0 {
				t.Errorf("%d claims, %d runs, want 1 and 0", len(r.store.claims), r.runs)
			}
		})
	}
}

// TestClaimAway asks each second for as long as patience lasts, and then gives
// the slot to others.
func TestClaimAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.store.setAway(1000)
		start := time.Now()
		got, report := r.process(t.Context())
		if want := (worker.Report{Source: "shop", Outcome: worker.GivenBack, Kind: webhook.KindUnavailable}); got != "again after the outage" || report != want {
			t.Errorf("Process = %s, %+v", got, report)
		}
		if n := len(r.store.claims); n < 15 || n > 16 { // the last probe and the end of patience coincide
			t.Errorf("claimed %d times, want 15 or 16", n)
		}
		if took := time.Since(start); took != 15*time.Second {
			t.Errorf("took %s, want 15s", took)
		}
	})
}

func TestClaimAwayForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.store.setAway(7)
		if got, report := r.process(t.Context()); got != "done" || report.Outcome != worker.Completed {
			t.Errorf("Process = %s, %+v", got, report)
		}
		if n := len(r.store.claims); n != 8 {
			t.Errorf("claimed %d times, want 8", n)
		}
	})
}

// TestClaimHangs has a database that takes statements and does not answer.
func TestClaimHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.store.hang = true
		start := time.Now()
		if got, _ := r.process(t.Context()); got != "again after the outage" {
			t.Errorf("Process = %s", got)
		}
		if took := time.Since(start); took > 25*time.Second {
			t.Errorf("took %s, want 25s at most", took)
		}
	})
}

func TestClaimAwayAtShutdown(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, nil)
		r.store.setAway(1000)
		ctx, stop := context.WithCancelCause(t.Context())
		defer time.AfterFunc(3500*time.Millisecond, func() { stop(webhook.ErrShutdown) }).Stop()
		start := time.Now()
		if got, report := r.process(ctx); got != "again after the outage" || report.Outcome != worker.GivenBack {
			t.Errorf("Process = %s, %+v", got, report)
		}
		if took := time.Since(start); took != 3500*time.Millisecond {
			t.Errorf("took %s: the shutdown had to wait", took)
		}
	})
}

func TestClaimSaysWhoAsks(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	if err := r.Process(t.Context(), event("e-1", `{}`), 7); err != nil {
		t.Fatal(err)
	}
	if want := (claimed{"me", terms, 7}); len(r.store.claims) != 1 || r.store.claims[0] != want {
		t.Errorf("Claim called with %+v, want %+v", r.store.claims, want)
	}
	if r.lock.ttl != terms.Lease() {
		t.Errorf("lock for %s, want %s", r.lock.ttl, terms.Lease())
	}
}

func TestUnknownSource(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	ev := event("e-1", `{}`)
	ev.Source = "elsewhere"
	if err := r.Process(t.Context(), ev, 0); err == nil || !strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("Process = %v, want an error that names the source", err)
	}
	if len(r.store.claims) != 0 || r.lock.acquired != 0 {
		t.Error("claimed or locked nevertheless")
	}
}

func TestKeepConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.store.keepErr = errBoom
	if err := r.KeepConflict(t.Context(), event("e-1", `{}`)); !errors.Is(err, errBoom) || len(r.store.kept) != 1 {
		t.Errorf("KeepConflict = %v, kept %d", err, len(r.store.kept))
	}
}
