package ingest

import (
	"encoding/hex"
	"fmt"
	"log/slog"
	"strings"

	"github.com/labstack/echo/v4"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// outcomes are in the order from worst to best.
var outcomes = []webhook.Outcome{webhook.Refused, webhook.Accepted, webhook.Requeued, webhook.Duplicate, webhook.Ignored}

// summary is the worst outcome of a batch, and a count of each.
func summary(counts map[webhook.Outcome]int) (webhook.Outcome, string) {
	var words []string
	worst := webhook.Outcome("")
	for _, o := range outcomes {
		if n := counts[o]; n > 0 {
			words = append(words, fmt.Sprintf("%d %s", n, o))
			if worst == "" {
				worst = o
			}
		}
	}
	return worst, strings.Join(words, ", ") + "."
}

// maxLogged is how many events that are refused one batch writes to the log.
const maxLogged = 20

// settle logs and reports each event of a batch.
func (d *delivery) settle(c echo.Context) ([]eventAnswer, map[webhook.Outcome]int) {
	events, counts := make([]eventAnswer, len(d.entries)), map[webhook.Outcome]int{}
	for i := range d.entries {
		e := &d.entries[i]
		events[i] = eventAnswer{e.id(), e.outcome()}
		counts[e.outcome()]++
		if e.invalid == nil || counts[webhook.Refused] <= maxLogged {
			d.logEntry(c, e)
		}
		d.observe(d.tell(e))
	}
	if n := counts[webhook.Refused]; n > maxLogged {
		d.Log.InfoContext(c.Request().Context(), "more events of a batch refused", "source", d.src.Name, "events", n-maxLogged)
	}
	return events, counts
}

func (e *entry) id() string {
	if e.event.ID == "" {
		return "unknown"
	}
	return e.event.ID
}

func (e *entry) outcome() webhook.Outcome {
	if e.invalid != nil || e.unheld != nil || e.receipt.Outcome == "" {
		return webhook.Refused
	}
	return e.receipt.Outcome
}

// message is what the provider reads of an event that is not refused.
func (e *entry) message() string {
	switch r := e.receipt; {
	case r.Outcome == webhook.Ignored:
		return "Event ignored by configuration."
	case r.Outcome == webhook.Requeued:
		return "Dead event accepted again."
	case r.Outcome == webhook.Duplicate && r.Done:
		return "Duplicate event: already processed."
	case r.Outcome == webhook.Duplicate:
		return "Duplicate event: processing is already in progress."
	}
	return "Event accepted for processing."
}

// tell is the report of an event.
func (d *delivery) tell(e *entry) Report {
	r := d.report
	r.Outcome, r.Layer, r.OtherBody = e.outcome(), e.receipt.Layer, e.receipt.OtherBody
	switch {
	case e.invalid != nil:
		_, _, r.Reason = judge(e.invalid)
	case r.Outcome != webhook.Refused:
		r.Reason = ""
	}
	return r
}

func (d *delivery) logEntry(c echo.Context, e *entry) {
	ctx, outcome := c.Request().Context(), e.outcome()
	if quiet := outcome == webhook.Accepted || outcome == webhook.Ignored; quiet && !e.receipt.OtherBody && !d.Log.Enabled(ctx, slog.LevelDebug) {
		return // as nearly all do
	}
	args := []any{"source", d.src.Name, "event_id", e.event.ID}
	switch outcome {
	case webhook.Accepted, webhook.Ignored:
		d.Log.DebugContext(ctx, string(outcome), args...)
	case webhook.Requeued:
		d.Log.InfoContext(ctx, "requeued: the event was dead", args...)
	case webhook.Duplicate:
		d.Log.InfoContext(ctx, "duplicate", append(args, "layer", e.receipt.Layer)...)
	case webhook.Refused:
		if e.invalid != nil {
			d.Log.InfoContext(ctx, "event of a batch refused", append(args, "err", e.invalid)...)
		}
	}
	if e.receipt.OtherBody {
		d.Log.WarnContext(ctx, "the event's id came with another body: the first stays", append(args, "body_sha256", hex.EncodeToString(e.event.SHA256[:]))...)
	}
}
