package queue

import (
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"google.golang.org/protobuf/encoding/protowire"

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

// eachHeader tells the headers of ev's task. Protobuf refuses text that is not
// UTF-8, which HTTP headers may hold, so that is replaced.
func eachHeader(ev webhook.Event, conflict bool, tell func(name, value string)) {
	tell(headerEventID, ev.ID)
	tell(headerEventType, ev.Type)
	tell(headerDelivery, ev.Delivery)
	tell(headerSHA256, shaText(ev))
	tell(headerContentType, strings.ToValidUTF8(ev.ContentType, "\uFFFD"))
	tell(headerReceivedAt, ev.ReceivedAt.UTC().Format(time.RFC3339Nano))
	if ev.TraceParent != "" {
		tell(headerTraceParent, strings.ToValidUTF8(ev.TraceParent, "\uFFFD"))
	}
	for name, value := range ev.Headers {
		tell(headerKept+name, strings.ToValidUTF8(value, "\uFFFD"))
	}
	if conflict {
		tell(headerConflict, "1")
	}
	if ev.KeyOnly {
		tell(headerKeyOnly, "1")
	}
}

// The fields of asynq's TaskMessage, which it keeps for itself:
// https://github.com/hibiken/asynq/blob/v0.26.0/internal/proto/asynq.proto
const (
	fieldType      = 1
	fieldPayload   = 2
	fieldID        = 3
	fieldQueue     = 4
	fieldRetry     = 5
	fieldTimeout   = 8  // seconds
	fieldRetention = 12 // seconds
	fieldHeaders   = 15
)

// encode packs ev into a message as asynq's own client would. asynq's way there,
// by reflection over a map of the headers, cost ingest a tenth of all it does.
func encode(ev webhook.Event, conflict bool, id string, s Settings) []byte {
	b := make([]byte, 0, 512+len(ev.Body))
	text := func(field protowire.Number, s string) {
		b = protowire.AppendTag(b, field, protowire.BytesType)
		b = protowire.AppendString(b, s)
	}
	number := func(field protowire.Number, n int64) {
		if n != 0 {
			b = protowire.AppendTag(b, field, protowire.VarintType)
			b = protowire.AppendVarint(b, uint64(n))
		}
	}
	text(fieldType, ev.Type)
	if !ev.KeyOnly && len(ev.Body) > 0 {
		b = protowire.AppendTag(b, fieldPayload, protowire.BytesType)
		b = protowire.AppendBytes(b, ev.Body)
	}
	text(fieldID, id)
	text(fieldQueue, ev.Source)
	number(fieldRetry, unlimited)
	number(fieldTimeout, int64((ceilSecond(s.Timeout)+asynqSlack)/time.Second))
	number(fieldRetention, int64(s.Retention/time.Second))
	eachHeader(ev, conflict, func(name, value string) {
		b = protowire.AppendTag(b, fieldHeaders, protowire.BytesType)
		b = protowire.AppendVarint(b, uint64(2+protowire.SizeBytes(len(name))+protowire.SizeBytes(len(value))))
		text(1, name)
		text(2, value)
	})
	return b
}

// parseTask unpacks what encode packed. An error means that the task is not
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
