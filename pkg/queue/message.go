package queue

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"

	"github.com/hookonce/hookonce/pkg/webhook"
)

// The headers of a task. Its payload is the body, byte for byte; its type is
// the event's.
const (
	headerEventID     = "event_id"
	headerEventType   = "event_type"
	headerDelivery    = "delivery"
	headerSHA256      = "sha256" // the conflict script looks for it by this name
	headerContentType = "content_type"
	headerReceivedAt  = "received_at"
	headerTraceParent = "traceparent"
	headerKeyOnly     = "key_only" // set: there is no body, Postgres holds the event
	headerConflict    = "conflict" // set: the body is a second one of its event, to be kept
	headerKept        = "header-"  // + a header of the request
)

// newTask packs ev. Protobuf refuses text that is not UTF-8, which HTTP
// headers may hold, so that is replaced.
func newTask(ev webhook.Event, conflict bool) *asynq.Task {
	h := map[string]string{
		headerEventID:     ev.ID,
		headerEventType:   ev.Type,
		headerDelivery:    ev.Delivery,
		headerSHA256:      hex.EncodeToString(ev.SHA256[:]),
		headerContentType: strings.ToValidUTF8(ev.ContentType, "\uFFFD"),
		headerReceivedAt:  ev.ReceivedAt.UTC().Format(time.RFC3339Nano),
	}
	if ev.TraceParent != "" {
		h[headerTraceParent] = strings.ToValidUTF8(ev.TraceParent, "\uFFFD")
	}
	for name, value := range ev.Headers {
		h[headerKept+name] = strings.ToValidUTF8(value, "\uFFFD")
	}
	if conflict {
		h[headerConflict] = "1"
	}
	if ev.KeyOnly {
		h[headerKeyOnly] = "1"
		return asynq.NewTaskWithHeaders(ev.Type, nil, h)
	}
	return asynq.NewTaskWithHeaders(ev.Type, ev.Body, h)
}

// parseTask unpacks what newTask packed. An error means that the task is not
// one of ours, or damaged.
func parseTask(source string, t *asynq.Task) (ev webhook.Event, conflict bool, err error) {
	h := t.Headers()
	sum, err := hex.DecodeString(h[headerSHA256])
	if err != nil || len(sum) != len(ev.SHA256) || h[headerEventID] == "" || h[headerDelivery] == "" {
		return ev, false, fmt.Errorf("task of queue %s was not made by ingest: no %s, %s or %s in its headers",
			source, headerEventID, headerDelivery, headerSHA256)
	}
	received, err := time.Parse(time.RFC3339Nano, h[headerReceivedAt])
	if err != nil {
		return ev, false, fmt.Errorf("task %s/%s: %s: %w", source, h[headerEventID], headerReceivedAt, err)
	}
	ev = webhook.Event{
		Source: source, ID: h[headerEventID], Type: h[headerEventType], Delivery: h[headerDelivery],
		ContentType: h[headerContentType], TraceParent: h[headerTraceParent], ReceivedAt: received,
		Headers: map[string]string{}, Body: t.Payload(), SHA256: [32]byte(sum), KeyOnly: h[headerKeyOnly] != "",
	}
	for name, value := range h {
		if name, kept := strings.CutPrefix(name, headerKept); kept {
			ev.Headers[name] = value
		}
	}
	return ev, h[headerConflict] != "", nil
}
