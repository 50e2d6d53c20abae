package queue_test

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

func TestRetryDelay(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 2, 12, 0, 0, 400_000_000, time.UTC)
	again := func(after time.Duration) error {
		return fmt.Errorf("wrapped: %w", &webhook.RetryError{After: after, Err: errors.New("not now")})
	}
	tests := []struct {
		name string
		err  error
		want time.Duration // between now and the second that asynq keeps; 0 for at once
	}{
		{"at once", again(0), 0},
		{"past", again(-time.Second), 0},
		{"a bit", again(1), 600 * time.Millisecond},
		{"to the second", again(600 * time.Millisecond), 600 * time.Millisecond},
		{"just over the second", again(600*time.Millisecond + 1), 1600 * time.Millisecond},
		{"whole seconds", again(2 * time.Second), 2600 * time.Millisecond},
		{"hours", again(4 * time.Hour), 4*time.Hour + 600*time.Millisecond},
		{"no word of when", errors.New("lease expired"), 1600 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := queue.RetryDelay(now, tt.err)
			if tt.want == 0 {
				if got != 0 {
					t.Errorf("RetryDelay = %s, want 0", got)
				}
				return
			}
			// asynq adds the delay to a time a bit later, and cuts it off.
			if kept := now.Add(got).Truncate(time.Second).Sub(now); kept != tt.want {
				t.Errorf("RetryDelay = %s: asynq keeps %s, want %s", got, kept, tt.want)
			}
			if got <= tt.want {
				t.Errorf("RetryDelay = %s leaves nothing over %s", got, tt.want)
			}
		})
	}
}

func TestDeathIn(t *testing.T) {
	t.Parallel()
	tests := []struct {
		lastErr string
		want    int
	}{
		{(&webhook.DeadError{Attempt: 3, Reason: "no such account"}).Error(), 3},
		{"dead at attempt 3: runs again: lock busy", 3},
		{"dead at attempt 12", 12},
		{"", 0},
		{"attempt 3: dead at attempt 4: x", 0},
		{"dead at attempt : x", 0},
		{"dead at attempt x: y", 0},
		{"dead at attempt 3 : y", 0},
		{"dead at attempt 99999999999999999999: y", 0},
		{"dead at attempt -3: y", 0},
		{"asynq: task lease expired", 0},
	}
	for _, tt := range tests {
		if got := queue.DeathIn(tt.lastErr); got != tt.want {
			t.Errorf("DeathIn(%q) = %d, want %d", tt.lastErr, got, tt.want)
		}
	}
}

func FuzzDeathIn(f *testing.F) {
	f.Add(3, "no such account")
	f.Add(math.MaxInt, ": dead at attempt 1: ")
	f.Fuzz(func(t *testing.T, attempt int, reason string) {
		want := max(attempt, 0)
		if got := queue.DeathIn((&webhook.DeadError{Attempt: attempt, Reason: reason}).Error()); got != want {
			t.Errorf("DeathIn(death %d: %q) = %d", attempt, reason, got)
		}
		if got := queue.DeathIn(reason); got < 0 || got != 0 && len(reason) < len("dead at attempt "+strconv.Itoa(got)) {
			t.Errorf("DeathIn(%q) = %d", reason, got)
		}
	})
}
