package bench

import (
	"fmt"
	"math"
	"slices"
	"time"
)

// A series is one figure, measured several times.
type series []float64

func (s series) median() float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// text is the median with the range.
func (s series) text(format string) string {
	switch len(s) {
	case 0:
		return "–"
	case 1:
		return fmt.Sprintf(format, s[0])
	}
	return fmt.Sprintf(format+" ("+format+"–"+format+")", s.median(), slices.Min(s), slices.Max(s))
}

// over divides what was measured in the same rounds.
func (s series) over(t series) series {
	var ratios series
	for i := range min(len(s), len(t)) {
		ratios = append(ratios, s[i]/t[i])
	}
	return ratios
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// A verdict says how a figure stands to its goal.
type verdict string

const (
	met    verdict = "yes"
	near   verdict = "within 10 %"
	missed verdict = "**no**"
	void   verdict = "void"
)

// atLeast and atMost judge.
func atLeast(got, goal float64) verdict {
	switch {
	case got >= goal:
		return met
	case got >= 0.9*goal:
		return near
	}
	return missed
}

func atMost(got, goal float64) verdict {
	switch {
	case got <= goal:
		return met
	case got <= 1.1*goal:
		return near
	}
	return missed
}

// worst is what is true of several figures together.
func worst(vs ...verdict) verdict {
	order := []verdict{met, near, missed, void}
	return slices.MaxFunc(vs, func(a, b verdict) int { return slices.Index(order, a) - slices.Index(order, b) })
}
