package queue_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestServeDone(t *testing.T) {
	t.Parallel()
	for name, retention := range map[string]time.Duration{"kept": time.Minute, "not kept": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.retain(retention)
			p := new(processor)
			r.serve(p, nil)
			ev := r.event("a/b", "\x00{}")
			ev.TraceParent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
			r.wantOutcome(ev, webhook.Accepted)
			if retention > 0 {
				r.awaitState("a/b", completed)
			} else {
				r.eventually("processed", func() bool { return p.count() > 0 })
				r.awaitGone("a/b")
			}
			if want := []call{{ev, 0}}; !reflect.DeepEqual(p.calls, want) {
				t.Errorf("processed %+v, want %+v", p.calls, want)
			}
		})
	}
}

// A processor's error decides when the task comes back.
func TestServeComesBack(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	tests := []struct {
		name        string
		err         error
		retried     int
		lastErr     string
		least, most time.Duration
	}{
		{"failed", &webhook.RetryError{After: 90 * time.Second, Failed: true, Err: no}, 1, "no", 90 * time.Second, 92100 * time.Millisecond},
		{"failed, wrapped", fmt.Errorf("attempt 1: %w", &webhook.RetryError{After: 90 * time.Second, Failed: true, Err: no}), 1, "attempt 1: no", 90 * time.Second, 92100 * time.Millisecond},
		{"failed, soon", &webhook.RetryError{After: 3100 * time.Millisecond, Failed: true, Err: no}, 1, "no", 3100 * time.Millisecond, 5200 * time.Millisecond},
		{"not run", &webhook.RetryError{After: 90 * time.Second, Err: no}, 0, "no", 90 * time.Second, 92100 * time.Millisecond},
		{"another error", no, 0, "no", 5 * time.Second, 11100 * time.Millisecond},
		{"not UTF-8", &webhook.RetryError{After: 90 * time.Second, Failed: true, Err: errors.New("Jos\xe9")}, 1, "Jos\uFFFD", 90 * time.Second, 92100 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			start := make(chan time.Time, 1)
			r.serve(&processor{process: func(context.Context, webhook.Event, int) error {
				start <- time.Now()
				return tt.err
			}}, nil)
			r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
			info := r.awaitState("evt_1", retry)
			if after := info.NextProcessAt.Sub(<-start); after < tt.least || after >= tt.most {
				t.Errorf("comes back after %s, want %s to %s", after, tt.least, tt.most)
			}
			if info.Retried != tt.retried || info.LastErr != tt.lastErr {
				t.Errorf("retried %d times, last error %q, want %d, %q", info.Retried, info.LastErr, tt.retried, tt.lastErr)
			}
		})
	}
}

func TestServeRunsAgainSoon(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := answering(&webhook.RetryError{Err: errors.New("lock busy")})
	r.serve(p, nil)
	start := time.Now()
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	r.awaitState("evt_1", completed)
	if took := time.Since(start); took > 4*time.Second {
		t.Errorf("ran again after %s", took)
	}
	if n := p.count(); n != 2 {
		t.Errorf("processed %d times, want 2", n)
	}
}

func TestServePanic(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first := make(chan struct{}, 1)
	first <- struct{}{}
	r.serve(&processor{process: func(context.Context, webhook.Event, int) error {
		select {
		case <-first:
			panic("oops")
		default:
			return nil
		}
	}}, nil)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	if info := r.awaitState("evt_1", completed); info.Retried != 0 || !strings.Contains(info.LastErr, "oops") {
		t.Errorf("retried %d times, last error %q", info.Retried, info.LastErr)
	}
}

func TestServeDead(t *testing.T) {
	t.Parallel()
	for reason, want := range map[string]string{
		"no such account": "dead at attempt 7: no such account",
		"Jos\xe9":         "dead at attempt 7: Jos\uFFFD",
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.serve(answering(fmt.Errorf("wrapped: %w", &webhook.DeadError{Attempt: 7, Reason: reason})), nil)
			r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
			if info := r.awaitState("evt_1", archived); info.LastErr != want {
				t.Errorf("last error = %q, want %q", info.LastErr, want)
			}
		})
	}
}

func TestServeForeignTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, err := asynq.NewClientFromRedisClient(r.rdb).Enqueue(asynq.NewTask("by hand", nil), asynq.TaskID("evt_1"), asynq.Queue(r.source))
	if err != nil {
		t.Fatal(err)
	}
	p := new(processor)
	s := r.serve(p, nil)
	r.awaitState("evt_1", archived)
	if p.count() != 0 {
		t.Error("processed a task that is not ours")
	}
	if log := s.log.String(); !strings.Contains(log, "level=ERROR") || !strings.Contains(log, "was not made by ingest") {
		t.Errorf("log = %s", log)
	}
}

func TestServeConflict(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	first, second := r.event("evt_1", "first"), r.event("evt_1", "second")
	r.enqueue(first)
	r.enqueue(second)
	p := new(processor)
	s := r.serve(p, nil)
	r.awaitState("evt_1", completed)
	r.eventually("the second body is kept", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return len(p.kept) > 0
	})
	s.stop()
	if !reflect.DeepEqual(p.kept, []webhook.Event{second}) || !reflect.DeepEqual(p.calls, []call{{first, 0}}) {
		t.Errorf("kept %+v and processed %+v", p.kept, p.calls)
	}
}

// died is a processor's answer for an event that is dead since attempt 3.
var died = &webhook.DeadError{Attempt: 3, Leftover: true, Reason: "not delivered again since"}

func TestLeftoverIsArchivedAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := answering(died)
	s := r.serve(p, nil)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	info := r.awaitState("evt_1", archived)
	s.stop()
	if info.LastErr != died.Error() || !slices.Equal(p.revivals(), []int{0}) {
		t.Errorf("last error %q, offered %v", info.LastErr, p.revivals())
	}
}

// run lets a person run the archived task of an event.
func (r *rig) run(id string) {
	r.t.Helper()
	if err := r.inspector.RunTask(r.source, queue.TaskID(id)); err != nil {
		r.t.Fatal(err)
	}
}

func TestLeftoverRevived(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		rerun func(r *rig)
		after []error // what the processor answers from then on, before nil
		want  []int   // the revivals it is offered, from the first run on
	}{
		{"by hand", func(r *rig) { r.run("a/b") }, []error{died}, []int{0, 0, 3}},
		{"by a delivery", func(r *rig) { r.wantOutcome(r.event("a/b", "{}"), webhook.Requeued) }, []error{died}, []int{0, 0, 3}},
		{"lock busy first", func(r *rig) { r.run("a/b") },
			[]error{&webhook.RetryError{Err: errors.New("lock busy")}, died}, []int{0, 0, 0, 3}},
		{"lock busy twice", func(r *rig) { r.run("a/b") },
			[]error{&webhook.RetryError{Err: errors.New("lock busy")}, &webhook.RetryError{Err: errors.New("lock busy")}, died}, []int{0, 0, 0, 0, 3}},
		{"lock busy at the revival", func(r *rig) { r.run("a/b") },
			[]error{died, &webhook.RetryError{Err: errors.New("lock busy")}, died}, []int{0, 0, 3, 0, 3}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			p := answering(append([]error{&webhook.DeadError{Attempt: 3, Reason: "no"}}, tt.after...)...)
			r.serve(p, nil)
			r.wantOutcome(r.event("a/b", "{}"), webhook.Accepted)
			r.awaitState("a/b", archived)
			tt.rerun(r)
			info := r.awaitState("a/b", completed)
			if got := p.revivals(); !slices.Equal(got, tt.want) {
				t.Errorf("offered the revivals %v, want %v", got, tt.want)
			}
			if info.Retried != 0 {
				t.Errorf("%d retries are counted", info.Retried)
			}
		})
	}
}

// A mishap must not hide from people, nor from the next run, which death the
// task was archived for.
func TestLeftoverKeepsDeath(t *testing.T) {
	t.Parallel()
	for name, mishap := range map[string]error{
		"not run": &webhook.RetryError{After: time.Hour, Err: errors.New("lock busy")},
		"unknown": errors.New("oops"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.serve(answering(&webhook.DeadError{Attempt: 3, Reason: "no"}, mishap), nil)
			r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
			r.awaitState("evt_1", archived)
			r.run("evt_1")
			info := r.awaitState("evt_1", retry)
			if queue.DeathIn(info.LastErr) != 3 || !strings.Contains(info.LastErr, mishap.Error()) {
				t.Errorf("last error = %q", info.LastErr)
			}
		})
	}
}

// An event that is dead since another attempt is not revived by a Run that was
// meant for an older death.
func TestLeftoverOfAnotherDeath(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := answering(&webhook.DeadError{Attempt: 2, Reason: "no"}, died)
	s := r.serve(p, nil)
	r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
	r.awaitState("evt_1", archived)
	r.run("evt_1")
	r.eventually("processed again", func() bool { return p.count() == 2 })
	r.awaitState("evt_1", archived)
	s.stop()
	if !slices.Equal(p.revivals(), []int{0, 0}) {
		t.Errorf("offered the revivals %v, want none", p.revivals())
	}
}

// asynq keeps what is active by the task's id alone: the same id in two queues
// must not cost one of them its lease.
func TestServeSameIDTwice(t *testing.T) {
	t.Parallel()
	a := newRig(t)
	b := rigOn(t, a.url, stacktest.Source(t))
	a.settings[b.source] = b.settings[b.source]
	release := make(chan struct{})
	p := &processor{process: func(context.Context, webhook.Event, int) error { <-release; return nil }}
	a.serve(p, nil)
	first := map[*rig]float64{}
	for _, r := range []*rig{a, b} {
		r.wantOutcome(r.event("evt_1", "{}"), webhook.Accepted)
		r.awaitState("evt_1", active)
		first[r] = r.lease("evt_1")
	}
	for _, r := range []*rig{a, b} {
		r.eventually("the lease is renewed", func() bool { return r.lease("evt_1") > first[r] })
	}
	close(release)
	a.awaitState("evt_1", completed)
	b.awaitState("evt_1", completed)
	if p.count() != 2 {
		t.Errorf("processed %d times, want 2", p.count())
	}
}

func (r *rig) lease(id string) float64 {
	r.t.Helper()
	score, err := r.rdb.ZScore(r.t.Context(), r.key("lease"), queue.TaskID(id)).Result()
	if err != nil {
		r.t.Fatal(err)
	}
	return score
}

// TestServeNeighbour lets all slots of one source be taken, and more wait: the
// other source's event is done all the same. (A50)
func TestServeNeighbour(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	noisy := r.source + "-noisy"
	r.settings[noisy] = queue.Settings{Timeout: 15 * time.Second, Concurrency: 2}
	release := make(chan struct{})
	var quiet, stuck atomic.Int32
	p := &processor{process: func(_ context.Context, ev webhook.Event, _ int) error {
		if ev.Source == noisy {
			stuck.Add(1)
			<-release
			return nil
		}
		quiet.Add(1)
		return nil
	}}
	client := queue.NewClient(r.rdb, r.settings)
	for i := range 200 {
		ev := r.event(fmt.Sprint("evt_", i), "{}")
		ev.Source = noisy
		if _, err := client.Enqueue(t.Context(), ev); err != nil {
			t.Fatal(err)
		}
	}
	r.serve(p, nil)
	r.eventually("the noisy source has all its slots", func() bool { return stuck.Load() == 2 })
	for i := range 10 {
		r.wantOutcome(r.event(fmt.Sprint("evt_", i), "{}"), webhook.Accepted)
	}
	r.eventually("the quiet source is served", func() bool { return quiet.Load() == 10 })
	if n := stuck.Load(); n != 2 {
		t.Errorf("%d events of the noisy source at once, want 2", n)
	}
	close(release)
}
