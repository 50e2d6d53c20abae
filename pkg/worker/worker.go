// Package worker decides what happens to one event: lock, claim, run, settle.
// It stores nothing itself, and tells the queue by its errors what becomes of
// the task.
package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Locker keeps other workers off an event while one works on it. Acquire
// fails with a [webhook.BusyError], or [webhook.ErrUnavailable].
type Locker interface {
	Acquire(ctx context.Context, source, eventID string, ttl time.Duration) (release func(context.Context) error, err error)
}

// A Store keeps the events' states. Its errors are those of package postgres.
type Store interface {
	Claim(ctx context.Context, ev webhook.Event, worker string, terms webhook.Terms, revive int) (webhook.Claim, error)
	Settle(ctx context.Context, c webhook.Claim, v webhook.Verdict) (webhook.Status, error)
	Restart(ctx context.Context, c webhook.Claim) (webhook.Claim, error)
	Bury(ctx context.Context, ev webhook.Event, attempt, maxRetry int, reason string) (bool, error)
	KeepConflict(ctx context.Context, ev webhook.Event) error
}

// A Worker processes events. Its fields are set before the first and not
// changed; it may be used from many goroutines.
type Worker struct {
	Name  string // unique among all workers, and new at each start: part of the fence
	Lock  Locker
	Store Store
	// Attempt runs the handler of the claim's event and completes the event, in
	// one transaction: see the store's method of that name.
	Attempt func(ctx context.Context, c webhook.Claim) error
	Terms   map[string]webhook.Terms // by source
	Backoff Backoff
	Away    Away
	Observe func(Report) // called once for each task
	Log     *slog.Logger

	// An event that took its process down twice may do it again, and would take
	// its neighbours along: its attempt holds alone, all others share it.
	alone sync.RWMutex
}

// suspectFrom is how many attempts in a row, lost with their worker, make an
// event a suspect.
const suspectFrom = 2

// Away says what an event does while Postgres is away: it waits in its slot and
// asks again, and then goes back to the queue.
type Away struct {
	Probe    time.Duration
	Patience time.Duration
}

// A Backoff draws the delay before a retry: uniformly between 0 and a bound
// that doubles from Min, with each retry, to Max ("full jitter").
type Backoff struct {
	Min, Max time.Duration
	Rand     func() float64 // in [0, 1)
}

// Delay is the wait before the retry after the nth attempt, from 1.
func (b Backoff) Delay(n int) time.Duration {
	bound := b.Max
	if b.Min <= b.Max>>(n-1) { // halved, since what doubles overflows
		bound = b.Min << (n - 1)
	}
	return time.Duration(b.Rand() * float64(bound))
}

// A Report tells what became of one task.
type Report struct {
	Source      string
	Outcome     Outcome
	Kind        webhook.Kind  // of an attempt that did not succeed
	LockSkipped bool          // Redis did not answer, and the work went on without a lock
	OtherBody   bool          // the task's body is not the event's
	Wait        time.Duration // from its arrival to its first attempt; 0 for later ones
	Handler     time.Duration // how long the handler and its transaction took; 0 if it did not run
}

// An Outcome is what became of a task.
type Outcome string

// The outcomes of a task.
const (
	Completed Outcome = "completed"
	Duplicate Outcome = "duplicate" // the event was completed before
	Failed    Outcome = "failed"
	Dead      Outcome = "dead"
	GivenBack Outcome = "given_back" // could not be finished, through no fault of its own
	Fenced    Outcome = "fenced"     // another attempt has taken over
	LockBusy  Outcome = "lock_busy"
	NotDue    Outcome = "not_due"  // comes back when its lease ends or its retry is due
	NoRow     Outcome = "no_row"   // the task sends for an event that Postgres does not have
	Leftover  Outcome = "leftover" // the event is dead, and this task is no new delivery of it
)

// Process runs the next attempt on ev, if it is time for one. revive is the
// attempt of the death that somebody had run again, or 0. nil means that the
// event is done; see [webhook.DeadError] and [webhook.RetryError].
func (w *Worker) Process(ctx context.Context, ev webhook.Event, revive int) error {
	terms, ok := w.Terms[ev.Source]
	if !ok {
		return fmt.Errorf("source %s is not configured in this worker", ev.Source)
	}
	t := &task{Worker: w, ev: ev, terms: terms, report: Report{Source: ev.Source}}
	defer func() { w.Observe(t.report) }()
	w.alone.RLock() // before the claim: who must wait shall not hold an event meanwhile
	defer func() { t.leave() }()
	t.leave = w.alone.RUnlock
	release, err := t.lock(ctx)
	if err != nil {
		return err
	}
	defer release()
	c, err := t.claim(ctx, revive)
	if err != nil {
		return err
	}
	t.report.OtherBody = c.OtherBody
	if t.report.Outcome == NoRow {
		return nil
	}
	if !c.Mine {
		return t.standing(ctx, c)
	}
	if c.Lost >= suspectFrom {
		if c, err = t.isolate(ctx, c); err != nil {
			return err
		}
	}
	return t.run(ctx, c)
}

// isolate waits until the event is alone in this process, and restarts its
// lease, which ran meanwhile.
func (t *task) isolate(ctx context.Context, c webhook.Claim) (webhook.Claim, error) {
	t.Log.WarnContext(ctx, "event took its worker down before: it runs alone", "source", t.ev.Source, "event_id", t.ev.ID, "lost", c.Lost)
	t.alone.RUnlock()
	t.alone.Lock()
	t.leave = t.alone.Unlock
	fresh, err := t.Store.Restart(ctx, c)
	if err != nil { // the lease finds it
		t.report.Outcome = NotDue
		return c, later(time.Second, err)
	}
	return fresh, nil
}

// KeepConflict keeps a second body of an event.
func (w *Worker) KeepConflict(ctx context.Context, ev webhook.Event) error {
	return w.Store.KeepConflict(ctx, ev)
}

// A task is one pass of an event through a worker.
type task struct {
	*Worker
	ev     webhook.Event
	terms  webhook.Terms
	report Report
	leave  func() // leaves the company of other attempts, or gives it back
}

// later sends the task back to the queue, which costs the event nothing.
func later(after time.Duration, err error) error {
	return &webhook.RetryError{After: after, Err: err}
}

// afterOutage spreads the tasks that come back when a store was away.
func afterOutage() time.Duration { return 5*time.Second + rand.N(5*time.Second) }

// lock takes the event's lock. Without Redis the work goes on: the fence in
// Postgres carries it.
func (t *task) lock(ctx context.Context) (release func(), err error) {
	free, err := t.Lock.Acquire(ctx, t.ev.Source, t.ev.ID, t.terms.Lease())
	if busy, ok := errors.AsType[*webhook.BusyError](err); ok {
		t.report.Outcome = LockBusy
		t.duplicate(ctx, "lock")
		return nil, later(max(busy.After, time.Second), err)
	}
	if err != nil {
		t.report.LockSkipped = true
		t.Log.WarnContext(ctx, "no lock: Redis does not answer, the fence alone decides", "source", t.ev.Source, "event_id", t.ev.ID, "err", err)
		return func() {}, nil
	}
	return func() {
		if err := free(ctx); err != nil {
			t.Log.WarnContext(ctx, "lock not released: it ends by itself", "source", t.ev.Source, "event_id", t.ev.ID, "err", err)
		}
	}, nil
}

// claim asks for the event, and waits while Postgres is away.
func (t *task) claim(ctx context.Context, revive int) (c webhook.Claim, err error) {
	err = t.Away.wait(ctx, func(ctx context.Context) (err error) {
		c, err = t.Store.Claim(ctx, t.ev, t.Name, t.terms, revive)
		return err
	})
	if busy, ok := errors.AsType[*webhook.BusyError](err); ok {
		t.report.Outcome = NotDue
		return c, later(busy.After, err)
	}
	if errors.Is(err, webhook.ErrNotFound) {
		t.report.Outcome = NoRow
		t.Log.ErrorContext(ctx, "task sends for an event that Postgres does not have", "source", t.ev.Source, "event_id", t.ev.ID)
		return c, nil
	}
	if err != nil {
		t.report.Outcome, t.report.Kind = GivenBack, webhook.KindUnavailable
		t.Log.WarnContext(ctx, "event not claimed: it comes back", "source", t.ev.Source, "event_id", t.ev.ID, "err", err)
		return c, later(afterOutage(), err)
	}
	return c, nil
}

// exchange bounds one exchange with the store.
const exchange = 10 * time.Second

// wait calls f until it succeeds, or fails by something else than a store that
// is away, or patience ends.
func (a Away) wait(ctx context.Context, f func(context.Context) error) error {
	patience := time.NewTimer(a.Patience)
	defer patience.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, exchange)
		err := f(bounded)
		cancel()
		if !errors.Is(err, webhook.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-patience.C:
			return err
		case <-time.After(a.Probe):
		}
	}
}

// standing deals with an event that is not for this task to run.
func (t *task) standing(ctx context.Context, c webhook.Claim) error {
	ctx, cancel := context.WithTimeout(ctx, exchange)
	defer cancel()
	if c.OtherBody {
		if err := t.Store.KeepConflict(ctx, t.ev); err != nil {
			t.report.Outcome = GivenBack
			return later(afterOutage(), err)
		}
	}
	switch {
	case c.Status == webhook.Completed:
		t.report.Outcome = Duplicate
		t.duplicate(ctx, "postgres")
		return nil
	case c.Status == webhook.Dead:
		t.report.Outcome = Leftover
		return &webhook.DeadError{Attempt: c.Attempt, Leftover: true, Reason: "not delivered again since"}
	case c.Spent:
		return t.bury(ctx, c)
	}
	t.report.Outcome = NotDue
	return later(max(c.Wait, time.Second), fmt.Errorf("event is %s: its next attempt is due in %s", c.Status, c.Wait.Round(time.Millisecond)))
}

// bury records the death of an event whose last worker could not.
func (t *task) bury(ctx context.Context, c webhook.Claim) error {
	const reason = "the worker died or stalled in the last attempt allowed"
	done, err := t.Store.Bury(ctx, t.ev, c.Attempt, t.terms.MaxRetry, reason)
	if err != nil || !done {
		t.report.Outcome = NotDue
		return later(time.Second, errors.Join(errors.New("event has moved on"), err))
	}
	return t.died(ctx, c.Attempt, webhook.KindLost, reason)
}

// died tells the log and the queue of a death that is recorded.
func (t *task) died(ctx context.Context, attempt int, kind webhook.Kind, reason string) error {
	t.report.Outcome, t.report.Kind = Dead, kind
	t.Log.ErrorContext(ctx, "event is dead", "source", t.ev.Source, "event_id", t.ev.ID, "attempt", attempt, "kind", kind, "reason", reason)
	return &webhook.DeadError{Attempt: attempt, Reason: reason}
}

func (t *task) duplicate(ctx context.Context, layer string) {
	t.Log.InfoContext(ctx, "duplicate", "source", t.ev.Source, "event_id", t.ev.ID, "layer", layer)
}
