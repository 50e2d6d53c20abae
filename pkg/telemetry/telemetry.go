// Package telemetry makes the programs' log and metrics. It serves our own
// programs and promises nothing to others.
package telemetry

import (
	"io"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// NewLog returns a log that writes lines of JSON, or of text, to w.
func NewLog(w io.Writer, level slog.Level, format string) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if format == "text" {
		return slog.New(slog.NewTextHandler(w, o))
	}
	return slog.New(slog.NewJSONHandler(w, o))
}

// Metrics are the program's metrics. No label ever holds an event's id.
type Metrics struct {
	registry *prometheus.Registry

	deliveries     *prometheus.CounterVec
	refusals       *prometheus.CounterVec
	ack            *prometheus.HistogramVec
	duplicates     *prometheus.CounterVec
	conflicts      *prometheus.CounterVec
	unchecked      *prometheus.CounterVec
	reloads        *prometheus.CounterVec
	attempts       *prometheus.CounterVec
	lockBusy       *prometheus.CounterVec
	lockSkipped    *prometheus.CounterVec
	fenced         *prometheus.CounterVec
	dead           *prometheus.CounterVec
	stuck          *prometheus.CounterVec
	noRow          *prometheus.CounterVec
	swept          *prometheus.CounterVec
	strays         *prometheus.GaugeVec
	queueWait      *prometheus.HistogramVec
	handlerSeconds *prometheus.HistogramVec
}

// NewMetrics returns metrics in a registry of their own, with those of the Go
// runtime and the process.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "hookonce", Name: name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	histogram := func(name, help string, from float64, count int) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "hookonce", Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(from, 2, count),
		}, []string{"source"})
		r.MustRegister(h)
		return h
	}
	strays := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Namespace: "hookonce", Name: "stray_events", Help: "Open events of sources that are in no configuration; must be zero.",
	}, []string{"source"})
	r.MustRegister(strays)
	return &Metrics{
		registry:       r,
		strays:         strays,
		noRow:          counter("tasks_without_row_total", "Tasks that sent for an event that Postgres does not have; must be zero.", "source"),
		swept:          counter("swept_total", "What the sweeper found: overdue, sent, unstuck, recalled, trimmed, purged.", "source", "outcome"),
		deliveries:     counter("deliveries_total", "Deliveries answered by ingest.", "source", "outcome"),
		refusals:       counter("refusals_total", "Deliveries that were refused.", "source", "reason"),
		ack:            histogram("ack_seconds", "From the last byte of a delivery to its answer.", 0.00025, 14),
		duplicates:     counter("duplicates_total", "Duplicates, by the layer that caught them.", "source", "layer"),
		conflicts:      counter("payload_conflicts_total", "Deliveries whose id belongs to another body.", "source"),
		unchecked:      counter("unchecked_total", "Deliveries that went without a check of ingest, since Redis did not answer.", "source", "check"),
		reloads:        counter("reloads_total", "How often the sources file was read again: ok, or refused.", "outcome"),
		attempts:       counter("attempts_total", "Tasks that a worker took, by what became of them.", "source", "outcome", "reason"),
		lockBusy:       counter("lock_busy_total", "Tasks that found their event's lock taken.", "source"),
		lockSkipped:    counter("lock_skipped_total", "Attempts without a lock, since Redis did not answer.", "source"),
		fenced:         counter("fenced_total", "Attempts that outlived their lease; nothing of them was kept.", "source"),
		dead:           counter("dead_total", "Events that died.", "source", "reason"),
		stuck:          counter("stuck_handlers_total", "Handlers that ignored their deadline.", "source"),
		queueWait:      histogram("queue_wait_seconds", "From an event's arrival to its first attempt.", 0.005, 18),
		handlerSeconds: histogram("handler_seconds", "One run of a handler, with its transaction.", 0.0005, 17),
	}
}

// Handler serves the metrics to Prometheus.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{Registry: m.registry})
}

// Delivery counts an answer of ingest. took is 0 for what was not read to its end.
func (m *Metrics) Delivery(source, outcome string, took time.Duration) {
	m.deliveries.WithLabelValues(source, outcome).Inc()
	if took > 0 {
		m.ack.WithLabelValues(source).Observe(took.Seconds())
	}
}

// Refusal counts why a delivery was refused.
func (m *Metrics) Refusal(source, reason string) { m.refusals.WithLabelValues(source, reason).Inc() }

// Duplicate counts a duplicate by the layer that caught it: taskid,
// batch, replay, lock or postgres.
func (m *Metrics) Duplicate(source, layer string) { m.duplicates.WithLabelValues(source, layer).Inc() }

// Conflict counts a delivery whose id belongs to an event with another body.
func (m *Metrics) Conflict(source string) { m.conflicts.WithLabelValues(source).Inc() }

// Unchecked counts a delivery without a check: replay or rate_limit.
func (m *Metrics) Unchecked(source, check string) { m.unchecked.WithLabelValues(source, check).Inc() }

// Reload counts that the sources file was read again.
func (m *Metrics) Reload(ok bool) {
	outcome := "refused"
	if ok {
		outcome = "ok"
	}
	m.reloads.WithLabelValues(outcome).Inc()
}

// BodyBytes makes a gauge of the bytes of all bodies in hand.
func (m *Metrics) BodyBytes(used func() int64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "hookonce", Name: "body_bytes", Help: "Bytes of the bodies that ingest has in hand.",
	}, func() float64 { return float64(used()) }))
}

// Attempt counts a task that a worker took.
func (m *Metrics) Attempt(source, outcome, kind string) {
	m.attempts.WithLabelValues(source, outcome, kind).Inc()
}

// LockBusy counts a task that found its event's lock taken.
func (m *Metrics) LockBusy(source string) { m.lockBusy.WithLabelValues(source).Inc() }

// LockSkipped counts an attempt that went on without a lock.
func (m *Metrics) LockSkipped(source string) { m.lockSkipped.WithLabelValues(source).Inc() }

// Fenced counts an attempt that was overtaken.
func (m *Metrics) Fenced(source string) { m.fenced.WithLabelValues(source).Inc() }

// Dead counts an event that died, by the kind of its last failure.
func (m *Metrics) Dead(source, kind string) { m.dead.WithLabelValues(source, kind).Inc() }

// Stuck counts a handler that ignored its deadline.
func (m *Metrics) Stuck(source string) { m.stuck.WithLabelValues(source).Inc() }

// QueueWait takes the time from an event's arrival to its first attempt.
func (m *Metrics) QueueWait(source string, d time.Duration) {
	m.queueWait.WithLabelValues(source).Observe(d.Seconds())
}

// HandlerTime takes the time of one run of a handler.
func (m *Metrics) HandlerTime(source string, d time.Duration) {
	m.handlerSeconds.WithLabelValues(source).Observe(d.Seconds())
}

// NoRow counts a task that sent for an event that Postgres does not have.
func (m *Metrics) NoRow(source string) { m.noRow.WithLabelValues(source).Inc() }

// Swept counts what the sweeper found and did.
func (m *Metrics) Swept(source, outcome string, n int) {
	if n > 0 {
		m.swept.WithLabelValues(source, outcome).Add(float64(n))
	}
}

// Strays sets how many events wait for an attempt that no worker makes.
func (m *Metrics) Strays(bySource map[string]int) {
	m.strays.Reset()
	for source, n := range bySource {
		m.strays.WithLabelValues(source).Set(float64(n))
	}
}

// Away makes a gauge that is 1 while a store is away, and must be zero.
func (m *Metrics) Away(store string, away func() bool) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: "hookonce", Name: "store_away", Help: "1 while deliveries do not wait for the store; must be zero.",
		ConstLabels: prometheus.Labels{"store": store},
	}, func() float64 {
		if away() {
			return 1
		}
		return 0
	}))
}
