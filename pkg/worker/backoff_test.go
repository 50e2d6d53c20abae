package worker_test

import (
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/worker"
)

func always(r float64) func() float64 { return func() float64 { return r } }

func TestBackoff(t *testing.T) {
	t.Parallel()
	tests := []struct {
		n        int
		min, max time.Duration
		bound    time.Duration
	}{
		{1, 2 * time.Second, 4 * time.Hour, 2 * time.Second},
		{2, 2 * time.Second, 4 * time.Hour, 4 * time.Second},
		{13, 2 * time.Second, 4 * time.Hour, 8192 * time.Second},
		{14, 2 * time.Second, 4 * time.Hour, 4 * time.Hour},
		{1000, 2 * time.Second, 4 * time.Hour, 4 * time.Hour},
		{1, time.Second, time.Second, time.Second},
		{2, time.Second, time.Second, time.Second},
		{3, time.Second, 4 * time.Second, 4 * time.Second},
		{3, time.Second, 4*time.Second - 1, 4*time.Second - 1},
		{25, time.Hour, 24 * time.Hour, 24 * time.Hour}, // an hour doubles past 2^63 at the 23rd
	}
	for _, tt := range tests {
		for _, r := range []float64{0, 0.5, 0.999} {
			b := worker.Backoff{Min: tt.min, Max: tt.max, Rand: always(r)}
			if got, want := b.Delay(tt.n), time.Duration(r*float64(tt.bound)); got != want {
				t.Errorf("%s to %s, Rand %g: Delay(%d) = %s, want %s", tt.min, tt.max, r, tt.n, got, want)
			}
		}
	}
}

// TestBackoffNeverLeavesItsBounds has any configuration that pkg/config allows.
func TestBackoffNeverLeavesItsBounds(t *testing.T) {
	t.Parallel()
	for shortest := time.Duration(1); shortest < 1<<61; shortest *= 3 {
		for longest := shortest; longest > 0 && longest < 1<<61; longest *= 5 {
			b := worker.Backoff{Min: shortest, Max: longest, Rand: always(0.999)}
			previous := time.Duration(0)
			for n := 1; n <= 1000; n++ {
				d := b.Delay(n)
				if d < previous || d > longest {
					t.Fatalf("%s to %s: Delay(%d) = %s after %s", shortest, longest, n, d, previous)
				}
				previous = d
			}
		}
	}
}

// TestBackoffLastsADay holds what the documents promise of the defaults.
func TestBackoffLastsADay(t *testing.T) {
	t.Parallel()
	sum := func(r float64) (total time.Duration) {
		b := worker.Backoff{Min: 2 * time.Second, Max: 4 * time.Hour, Rand: always(r)}
		for n := 1; n <= 24; n++ {
			total += b.Delay(n)
		}
		return total
	}
	if got := sum(0.5).Hours(); got < 23 || got > 25 {
		t.Errorf("24 retries take %.1f h on average, want a day", got)
	}
	if got := sum(1).Hours(); got < 47 || got > 49 {
		t.Errorf("24 retries take %.1f h at most, want two days", got)
	}
}
