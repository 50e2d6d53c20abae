package worker

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

var (
	errDeadline = errors.New("deadline of the attempt exceeded")
	errStuck    = errors.New("handler is still at work after its deadline and the allowance: it does not watch its context")
)

// run runs the handler and settles what comes of it.
func (t *task) run(ctx context.Context, c webhook.Claim) error {
	if c.Event.Attempt == 1 {
		t.report.Wait = max(time.Since(c.Event.ReceivedAt), 0)
	}
	start := time.Now()
	attempt, cancel := context.WithDeadlineCause(ctx, c.Deadline, errDeadline)
	defer cancel()
	err := t.conflict(attempt, c)
	if err == nil {
		err = t.handle(attempt, c)
	}
	t.report.Handler = time.Since(start)
	switch {
	case err == nil:
		return t.completed(ctx, c)
	case errors.Is(err, webhook.ErrFenced):
		return t.fenced(ctx, c)
	}
	return t.settle(ctx, c, t.judge(attempt, c, err), err)
}

// conflict keeps the task's body if the event is stored with another one, which
// the handler will see. No handler has run if that fails, so it costs no retry.
func (t *task) conflict(ctx context.Context, c webhook.Claim) error {
	if !c.OtherBody {
		return nil
	}
	if err := t.Store.KeepConflict(ctx, t.ev); err != nil {
		return fmt.Errorf("%w: %w", webhook.ErrUnavailable, err)
	}
	return nil
}

// handle waits for the handler, but no longer than the attempt's lease: by then
// the store has cut the handler's connection.
func (t *task) handle(ctx context.Context, c webhook.Claim) error {
	result := make(chan error, 1)
	go func() {
		err := errors.New("handler ended its goroutine")
		defer func() {
			if p := recover(); p != nil {
				err = &panicError{value: p, stack: debug.Stack()}
			}
			result <- err
		}()
		if err = t.Attempt(ctx, c); err != nil {
			_ = err.Error() // a nil pointer in an error panics here, where it is the handler's panic
		}
	}()
	stuck := time.NewTimer(time.Until(c.LeaseEnd()))
	defer stuck.Stop()
	select {
	case err := <-result:
		return err
	case <-stuck.C:
		return errStuck
	}
}

// A panicError is a handler's panic.
type panicError struct {
	value any
	stack []byte
}

func (e *panicError) Error() string { return fmt.Sprintf("panic: %v", e.value) }

// judge is the one place where a failed attempt becomes a verdict.
func (t *task) judge(attempt context.Context, c webhook.Claim, err error) webhook.Verdict {
	v := webhook.Verdict{Status: webhook.Failed, Kind: webhook.KindError, Reason: err.Error()}
	_, panicked := errors.AsType[*panicError](err)
	cause := context.Cause(attempt)
	switch {
	case errors.Is(cause, webhook.ErrShutdown):
		v.Status, v.Kind, v.Reason = webhook.Received, webhook.KindShutdown, cause.Error()
		return v
	case webhook.IsPermanent(err):
		v.Status, v.Kind = webhook.Dead, webhook.KindPermanent
		return v
	case errors.Is(err, webhook.ErrUnavailable):
		v.Status, v.Kind = webhook.Received, webhook.KindUnavailable
		return v
	case panicked:
		v.Kind = webhook.KindPanic
	case errors.Is(err, errStuck):
		v.Kind = webhook.KindStuck
	case errors.Is(cause, context.Canceled): // the queue lost its hold on the task: Redis is away
		v.Status, v.Kind = webhook.Received, webhook.KindUnavailable
		return v
	case cause != nil:
		v.Kind, v.Reason = webhook.KindTimeout, fmt.Sprintf("%v: %v", cause, err)
	}
	if c.LastTry() {
		v.Status = webhook.Dead
		return v
	}
	v.Delay = t.Backoff.Delay(c.Event.Attempt - c.BudgetFrom)
	return v
}

// settle records the verdict, waiting while Postgres is away, and tells the
// queue. What cannot be recorded is found by whoever comes after the lease.
func (t *task) settle(ctx context.Context, c webhook.Claim, v webhook.Verdict, cause error) error {
	t.report.Kind = v.Kind
	t.logFailure(ctx, c, v, cause)
	var status webhook.Status
	err := t.Away.wait(context.WithoutCancel(ctx), func(ctx context.Context) (err error) {
		status, err = t.Store.Settle(ctx, c, v)
		return err
	})
	switch {
	case errors.Is(err, webhook.ErrFenced):
		return t.fenced(ctx, c)
	case err != nil:
		t.report.Outcome = GivenBack
		if errors.Is(err, webhook.ErrUnavailable) {
			go t.settleLater(context.WithoutCancel(ctx), c, v)
		}
		t.Log.ErrorContext(ctx, "attempt's outcome not recorded yet", "source", t.ev.Source, "event_id", t.ev.ID, "err", err)
		return later(afterOutage(), err)
	}
	switch status {
	case webhook.Completed: // the commit had arrived
		return t.completed(ctx, c)
	case webhook.Dead:
		return t.died(ctx, c.Event.Attempt, v.Kind, v.Reason)
	case webhook.Received:
		t.report.Outcome = GivenBack
		if v.Kind == webhook.KindShutdown {
			return later(0, cause)
		}
		return later(afterOutage(), cause)
	}
	t.report.Outcome = Failed
	return &webhook.RetryError{After: v.Delay, Failed: true, Err: fmt.Errorf("attempt %d: %w", c.Event.Attempt, cause)}
}

// settleLater keeps the verdict until Postgres is back, so that an outage does
// not cost the event an attempt. If this process ends before, the lease does.
func (t *task) settleLater(ctx context.Context, c webhook.Claim, v webhook.Verdict) {
	for {
		err := t.Away.wait(ctx, func(ctx context.Context) error {
			_, err := t.Store.Settle(ctx, c, v)
			return err
		})
		if !errors.Is(err, webhook.ErrUnavailable) {
			return
		}
	}
}

func (t *task) logFailure(ctx context.Context, c webhook.Claim, v webhook.Verdict, cause error) {
	args := []any{"source", t.ev.Source, "event_id", t.ev.ID, "attempt", c.Event.Attempt, "kind", v.Kind, "err", cause}
	if v.Status == webhook.Failed {
		args = append(args, "retry_in", v.Delay.Round(time.Millisecond).String())
	}
	if p, ok := errors.AsType[*panicError](cause); ok {
		args = append(args, "stack", string(p.stack))
	}
	t.Log.WarnContext(ctx, "attempt did not succeed", args...)
}

func (t *task) completed(ctx context.Context, c webhook.Claim) error {
	t.report.Outcome = Completed
	t.Log.DebugContext(ctx, "completed", "source", t.ev.Source, "event_id", t.ev.ID, "attempt", c.Event.Attempt)
	return nil
}

// fenced sends the task back: it then meets what the other attempt made.
func (t *task) fenced(ctx context.Context, c webhook.Claim) error {
	t.report.Outcome = Fenced
	t.Log.WarnContext(ctx, "fenced: another attempt has taken over, nothing was kept", "source", t.ev.Source, "event_id", t.ev.ID, "attempt", c.Event.Attempt)
	return later(time.Second, webhook.ErrFenced)
}
