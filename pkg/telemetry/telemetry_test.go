package telemetry_test

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/telemetry"
)

// scrape returns what Prometheus reads, line by line.
func scrape(t *testing.T, m *telemetry.Metrics) []string {
	t.Helper()
	w := httptest.NewRecorder()
	m.Handler().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	if w.Code != 200 {
		t.Fatalf("GET /metrics: %d: %s", w.Code, w.Body)
	}
	return strings.Split(w.Body.String(), "\n")
}

// record uses every metric once.
func record(m *telemetry.Metrics) {
	m.Delivery("shop", "accepted", 3*time.Millisecond)
	m.Refusal("shop", "signature")
	m.Duplicate("shop", "taskid")
	m.Conflict("shop")
	m.Attempt("shop", "failed", "timeout")
	m.LockBusy("shop")
	m.LockSkipped("shop")
	m.Fenced("shop")
	m.Dead("shop", "permanent")
	m.Stuck("shop")
	m.QueueWait("shop", 2*time.Second)
	m.HandlerTime("shop", 20*time.Millisecond)
}

// TestMetrics has every metric that dashboards and alerts may name.
func TestMetrics(t *testing.T) {
	t.Parallel()
	want := []string{
		`hookonce_deliveries_total{outcome="accepted",source="shop"} 2`,
		`hookonce_refusals_total{reason="signature",source="shop"} 2`,
		`hookonce_ack_seconds_count{source="shop"} 2`,
		`hookonce_ack_seconds_sum{source="shop"} 0.006`,
		`hookonce_ack_seconds_bucket{source="shop",le="0.002"} 0`,
		`hookonce_ack_seconds_bucket{source="shop",le="0.004"} 2`,
		`hookonce_duplicates_total{layer="taskid",source="shop"} 2`,
		`hookonce_payload_conflicts_total{source="shop"} 2`,
		`hookonce_attempts_total{outcome="failed",reason="timeout",source="shop"} 2`,
		`hookonce_lock_busy_total{source="shop"} 2`,
		`hookonce_lock_skipped_total{source="shop"} 2`,
		`hookonce_fenced_total{source="shop"} 2`,
		`hookonce_dead_total{reason="permanent",source="shop"} 2`,
		`hookonce_stuck_handlers_total{source="shop"} 2`,
		`hookonce_queue_wait_seconds_count{source="shop"} 2`,
		`hookonce_queue_wait_seconds_sum{source="shop"} 4`,
		`hookonce_handler_seconds_count{source="shop"} 2`,
		`hookonce_handler_seconds_sum{source="shop"} 0.04`,
	}
	m := telemetry.NewMetrics()
	record(m)
	record(m)
	got := scrape(t, m)
	for _, line := range want {
		if !slices.Contains(got, line) {
			t.Errorf("%s is missing", line)
		}
	}
	for _, runtime := range []string{"go_goroutines ", "process_"} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.HasPrefix(line, runtime) }) {
			t.Errorf("%s is missing", runtime)
		}
	}
}

// TestLabels holds the labels to a few with few values each: never an event.
func TestLabels(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	record(m)
	label := regexp.MustCompile(`[{,](\w+)=`)
	for _, line := range scrape(t, m) {
		if !strings.HasPrefix(line, "hookonce_") {
			continue
		}
		for _, name := range label.FindAllStringSubmatch(line, -1) {
			if !slices.Contains([]string{"source", "outcome", "layer", "reason", "le"}, name[1]) {
				t.Errorf("label %s in %s", name[1], line)
			}
		}
	}
}

// TestDeliveryUnread has an answer to what was not read, which took no time.
func TestDeliveryUnread(t *testing.T) {
	t.Parallel()
	m := telemetry.NewMetrics()
	m.Delivery("shop", "error", 0)
	for _, line := range scrape(t, m) {
		if strings.HasPrefix(line, "hookonce_ack_seconds") {
			t.Errorf("counted as a time: %s", line)
		}
	}
}

// TestMetricsAreApart lets two programs run in one process.
func TestMetricsAreApart(t *testing.T) {
	t.Parallel()
	a, b := telemetry.NewMetrics(), telemetry.NewMetrics()
	a.Fenced("shop")
	a.Handler() // a second handler of the same metrics is allowed
	scrape(t, a)
	for _, line := range scrape(t, b) {
		if strings.Contains(line, "shop") {
			t.Errorf("the other's %s", line)
		}
	}
}

func TestNewLog(t *testing.T) {
	t.Parallel()
	levels := []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError}
	for _, format := range []string{"json", "text"} {
		for i, level := range levels {
			t.Run(format+" "+level.String(), func(t *testing.T) {
				t.Parallel()
				var out bytes.Buffer
				log := telemetry.NewLog(&out, level, format)
				for _, l := range levels {
					log.Log(t.Context(), l, "hello", "event_id", "e 1\n")
				}
				lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
				if want := len(levels) - i; len(lines) != want {
					t.Fatalf("%d lines, want %d: %q", len(lines), want, lines)
				}
				wantLine(t, format, lines[0], level)
			})
		}
	}
}

func wantLine(t *testing.T, format, line string, level slog.Level) {
	t.Helper()
	if format == "text" {
		if !strings.Contains(line, `level=`+level.String()+` msg=hello event_id="e 1\n"`) {
			t.Errorf("line %s", line)
		}
		return
	}
	var got struct {
		Level   string
		Msg     string
		EventID string `json:"event_id"`
	}
	if err := json.Unmarshal([]byte(line), &got); err != nil {
		t.Fatalf("line %s: %v", line, err)
	}
	if got.Level != level.String() || got.Msg != "hello" || got.EventID != "e 1\n" {
		t.Errorf("line %s", line)
	}
}
