package queue

import (
	"crypto/sha256"
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
	m := make(message, 0, 512+len(ev.Body))
	m.text(fieldType, ev.Type)
	if !ev.KeyOnly && len(ev.Body) > 0 {
		m = protowire.AppendBytes(protowire.AppendTag(m, fieldPayload, protowire.BytesType), ev.Body)
	}
	m.text(fieldID, id)
	m.text(fieldQueue, ev.Source)
	m.number(fieldRetry, unlimited)
	m.number(fieldTimeout, int64((ceilSecond(s.Timeout)+asynqSlack)/time.Second))
	m.number(fieldRetention, int64(s.Retention/time.Second))
	m.headers(ev, conflict)
	return m
}

// A message is one of asynq's on its way.
type message []byte

func (m *message) text(field protowire.Number, s string) {
	*m = protowire.AppendString(protowire.AppendTag(*m, field, protowire.BytesType), s)
}

func (m *message) number(field protowire.Number, n int64) {
	if n != 0 {
		*m = protowire.AppendVarint(protowire.AppendTag(*m, field, protowire.VarintType), uint64(n))
	}
}

// headers are those of ev's task. Protobuf refuses text that is not UTF-8, which
// HTTP headers may hold, so that is replaced.
func (m *message) headers(ev webhook.Event, conflict bool) {
	var room [2 * sha256.Size]byte // for text that nobody keeps
	m.header("", headerEventID, ev.ID)
	m.header("", headerEventType, ev.Type)
	m.header("", headerDelivery, ev.Delivery)
	m.header("", headerSHA256, string(hex.AppendEncode(room[:0], ev.SHA256[:])))
	m.header("", headerContentType, strings.ToValidUTF8(ev.ContentType, "\uFFFD"))
	m.header("", headerReceivedAt, string(ev.ReceivedAt.UTC().AppendFormat(room[:0], time.RFC3339Nano)))
	if ev.TraceParent != "" {
		m.header("", headerTraceParent, strings.ToValidUTF8(ev.TraceParent, "\uFFFD"))
	}
	for name, value := range ev.Headers {
		m.header(headerKept, name, strings.ToValidUTF8(value, "\uFFFD"))
	}
	if conflict {
		m.header("", headerConflict, "1")
	}
	if ev.KeyOnly {
		m.header("", headerKeyOnly, "1")
	}
}

// header is an entry of a map, whose key is 1 and value is 2.
func (m *message) header(prefix, name, value string) {
	size := 2 + protowire.SizeBytes(len(prefix)+len(name)) + protowire.SizeBytes(len(value))
	*m = protowire.AppendVarint(protowire.AppendTag(*m, fieldHeaders, protowire.BytesType), uint64(size))
	*m = protowire.AppendVarint(protowire.AppendTag(*m, 1, protowire.BytesType), uint64(len(prefix)+len(name)))
	*m = append(append(*m, prefix...), name...)
	m.text(2, value)
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
