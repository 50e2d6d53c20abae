package queue

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// verdict is the one place where the worker's error becomes asynq's business:
// nil is done, a DeadError archives, a RetryError comes back when it says so.
// Whatever else went wrong is nobody's fault: it comes back in 5 to 10 s.
func verdict(err error) error {
	if err == nil {
		return nil
	}
	if dead, ok := errors.AsType[*webhook.DeadError](err); ok {
		return told{archived{dead}}
	}
	if _, ok := errors.AsType[*webhook.RetryError](err); ok {
		return told{err}
	}
	return told{&webhook.RetryError{After: 5*time.Second + rand.N(5*time.Second), Err: err}}
}

// told is an error in words that asynq can store with the task. It could not
// store others than UTF-8, and would leave the task active.
type told struct{ error }

func (t told) Error() string { return strings.ToValidUTF8(t.error.Error(), "\uFFFD") }
func (t told) Unwrap() error { return t.error }

// archived makes asynq archive the task, and keeps the words that tell which
// death it was archived for.
type archived struct{ *webhook.DeadError }

func (a archived) Unwrap() []error { return []error{asynq.SkipRetry, a.DeadError} }

const deathText = "dead at attempt " // as webhook.DeadError writes it

// deathIn reads the attempt out of the text that asynq keeps of a task's last
// error, or returns 0.
func deathIn(lastErr string) int {
	rest, ok := strings.CutPrefix(lastErr, deathText)
	if !ok {
		return 0
	}
	number, _, _ := strings.Cut(rest, ":")
	attempt, err := strconv.ParseUint(number, 10, 63)
	if err != nil {
		return 0
	}
	return int(attempt)
}

// retryDelay tells asynq when the task comes back. asynq cuts the time off to
// whole seconds, so it is rounded up.
func retryDelay(now time.Time, err error) time.Duration {
	after := time.Second // the recoverer found the task's lease run out
	if again, ok := errors.AsType[*webhook.RetryError](err); ok {
		after = again.After
	}
	if after <= 0 {
		return 0
	}
	due := now.Add(after)
	if whole := due.Truncate(time.Second); whole.Before(due) {
		due = whole.Add(time.Second)
	}
	return due.Sub(now) + time.Millisecond
}

// isFailure tells asynq whether to count the retry: only for people to see.
func isFailure(err error) bool {
	again, ok := errors.AsType[*webhook.RetryError](err)
	return ok && again.Failed
}
