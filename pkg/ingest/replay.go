package ingest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// Replays know signed bytes again that come under another id. An error means
// that it could not be found out.
type Replays interface {
	// First returns what was said to Held first, or "".
	First(ctx context.Context, source string, sum [sha256.Size]byte) (ids string, err error)
	// Held is told of bytes whose events are held, and under which ids.
	Held(source string, sum [sha256.Size]byte, ids string, window time.Duration)
}

// A replay is what is known of the bytes of a delivery.
type replay struct {
	sum   [sha256.Size]byte
	ids   string   // as they came
	first []string // under which the same bytes are held; nil if they are new
}

// maxIDs is how much of ids is kept for a batch.
const maxIDs = 64 << 10

// sumOf identifies signed bytes. The types may stand in headers that are not
// signed, and some providers send the same bytes as several types of event
// (Shopify: orders/create, orders/paid); so they belong to it.
func sumOf(body [sha256.Size]byte, events ...webhook.Event) [sha256.Size]byte {
	h := sha256.New()
	h.Write(body[:])
	for _, ev := range events {
		h.Write([]byte(ev.Type + "\n"))
	}
	return [sha256.Size]byte(h.Sum(nil))
}

// findReplay looks whether the bytes came before, under other ids. If so, the
// events are to be held under those: then a first event that is in hand or done
// makes this one its duplicate, one that is dead runs again, and one that is
// held no longer is held now. Nothing is lost by the mark.
func (d *delivery) findReplay(ctx context.Context, events ...webhook.Event) {
	if d.src.Replay == 0 || d.Replays == nil {
		return
	}
	ids := make([]string, len(events))
	for i, ev := range events {
		ids[i] = ev.ID
	}
	d.replay = replay{sum: sumOf(d.sum, events...), ids: strings.Join(ids, "\n")} // no id has a newline
	d.report.NoReplayCheck = true
	if d.Away() {
		return
	}
	first, err := d.Replays.First(context.WithoutCancel(ctx), d.src.Name, d.replay.sum)
	if err != nil {
		d.Log.DebugContext(ctx, "replay not looked for: redis did not say", "source", d.src.Name, "err", err)
		return
	}
	d.report.NoReplayCheck = false
	if ids := strings.Split(first, "\n"); first != "" && first != d.replay.ids && len(ids) == len(events) {
		d.replay.first = ids
	}
}

// heldAs returns the id under which the delivery's i-th event is to be held.
func (d *delivery) heldAs(i int, id string) string {
	if d.replay.first == nil {
		return id
	}
	return d.replay.first[i]
}

// settleReplay remembers the bytes of events that are held, or says what became
// of those that were held under the ids of others.
func (d *delivery) settleReplay(ctx context.Context, entries ...[]*entry) {
	switch {
	case d.replay.ids == "":
		return
	case d.replay.first == nil:
		if len(d.replay.ids) <= maxIDs {
			d.Replays.Held(d.src.Name, d.replay.sum, d.replay.ids, d.src.Replay)
		}
		return
	}
	for _, e := range slices.Concat(entries...) {
		if e.receipt.Outcome != webhook.Requeued {
			e.receipt.Outcome, e.receipt.Layer = webhook.Duplicate, "replay"
		}
	}
	d.Log.WarnContext(ctx, "replay: the same bytes came under another id",
		"source", d.src.Name, "event_id", fmt.Sprintf("%.255s", d.replay.ids), "first_id", fmt.Sprintf("%.255s", strings.Join(d.replay.first, "\n")))
}
