package bench

import (
	"fmt"
	"math"
	"strings"
)

// A bar is a rate of a contestant.
type bar struct {
	group, name string
	value       float64
}

func barsOf(group string, cs []*contestant) []bar {
	var bars []bar
	for _, c := range cs {
		bars = append(bars, bar{group, c.name, c.rate.median()})
	}
	return bars
}

// A line is latency against offered load.
type line struct {
	name   string
	points []point
}

type point struct{ offered, p50, p99 float64 }

var colors = map[string]string{"floor": "#8c8c8c", "queue": "#1f77b4", "inbox": "#2ca02c", "naive A": "#ff9f4a", "naive B": "#d62728"}

const (
	plotWidth, plotHeight = 960, 380
	plotTop, plotBottom   = 40, 330
)

// plot draws throughput on the left, and latency on the right.
func plot(bars []bar, lines []line) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12" fill="#333">`+"\n", plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#fff"/>`+"\n", plotWidth, plotHeight)
	if len(bars) > 0 {
		plotBars(&b, bars)
	}
	if len(lines) > 0 {
		plotLines(&b, lines)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func plotBars(b *strings.Builder, bars []bar) {
	const left, right = 60.0, 460.0
	most := 0.0
	for _, r := range bars {
		most = max(most, r.value)
	}
	step := niceStep(most)
	top := step * math.Ceil(most/step)
	y := func(v float64) float64 { return plotBottom - v/top*(plotBottom-plotTop) }
	text(b, left, 22, "start", "Answered per second, by size of the body")
	for v := 0.0; v <= top; v += step {
		rule(b, left, y(v), right, y(v), "#ddd")
		text(b, left-6, y(v)+4, "end", fmt.Sprintf("%.0f", v))
	}
	groups := 0
	for i, r := range bars {
		if i == 0 || bars[i-1].group != r.group {
			groups++
		}
	}
	slot := (right - left) / float64(len(bars)+groups)
	x, start := left+slot/2, left+slot/2
	for i, r := range bars {
		fmt.Fprintf(b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"><title>%s %s: %.0f/s</title></rect>`+"\n",
			x, y(r.value), slot*0.9, plotBottom-y(r.value), colors[r.name], r.group, r.name, r.value)
		x += slot
		if i == len(bars)-1 || bars[i+1].group != r.group {
			text(b, (start+x)/2, plotBottom+16, "middle", r.group)
			x += slot
			start = x
		}
	}
	legend(b, left, bars)
}

func legend(b *strings.Builder, x float64, bars []bar) {
	seen := map[string]bool{}
	for _, r := range bars {
		if seen[r.name] {
			continue
		}
		seen[r.name] = true
		fmt.Fprintf(b, `<rect x="%.1f" y="%d" width="10" height="10" fill="%s"/>`+"\n", x, plotBottom+30, colors[r.name])
		text(b, x+14, plotBottom+39, "start", r.name)
		x += 75
	}
}

// plotLines has milliseconds on a logarithmic axis.
func plotLines(b *strings.Builder, lines []line) {
	const left, right, low, high = 540.0, 940.0, 0.1, 1000.0
	most := 0.0
	for _, l := range lines {
		for _, p := range l.points {
			most = max(most, p.offered)
		}
	}
	step := niceStep(most)
	most = step * math.Ceil(most/step)
	x := func(v float64) float64 { return left + v/most*(right-left) }
	y := func(ms float64) float64 {
		return plotBottom - math.Log(min(max(ms, low), high)/low)/math.Log(high/low)*(plotBottom-plotTop)
	}
	text(b, left, 22, "start", "Latency in ms against offered load per second: p99, and p50 dashed")
	for ms := low; ms <= high*1.01; ms *= 10 {
		rule(b, left, y(ms), right, y(ms), "#ddd")
		text(b, left-6, y(ms)+4, "end", fmt.Sprintf("%g", math.Round(ms*10)/10))
	}
	for v := 0.0; v <= most; v += step {
		text(b, x(v), plotBottom+16, "middle", fmt.Sprintf("%.0f", v))
	}
	for _, l := range lines {
		var p50, p99 strings.Builder
		for _, p := range l.points {
			fmt.Fprintf(&p50, "%.1f,%.1f ", x(p.offered), y(p.p50))
			fmt.Fprintf(&p99, "%.1f,%.1f ", x(p.offered), y(p.p99))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"><title>%s p99</title></polyline>`+"\n", strings.TrimSpace(p99.String()), colors[l.name], l.name)
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1" stroke-dasharray="4 3"/>`+"\n", strings.TrimSpace(p50.String()), colors[l.name])
	}
}

// niceStep divides an axis into four to eight parts.
func niceStep(most float64) float64 {
	step := math.Pow(10, math.Floor(math.Log10(max(most, 1))))
	for most/step < 4 {
		step /= 2
	}
	return step
}

func text(b *strings.Builder, x, y float64, anchor, s string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, s)
}

func rule(b *strings.Builder, x1, y1, x2, y2 float64, color string) {
	fmt.Fprintf(b, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s"/>`+"\n", x1, y1, x2, y2, color)
}
