package ingest

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// Reasons of ingest's own to refuse a delivery.
var (
	errUnknownSource = errors.New("unknown source")
	errMethod        = errors.New("method not allowed")
)

// An unreadableError means that a body broke off or was not framed as HTTP asks.
type unreadableError struct{ err error }

func (e *unreadableError) Error() string { return "body: " + e.err.Error() }
func (e *unreadableError) Unwrap() error { return e.err }

// An unheldError means that a good delivery could not be held, whatever the
// reason: the sender must never take that for a fault of its own.
type unheldError struct{ err error }

func (e *unheldError) Error() string { return e.err.Error() }
func (e *unheldError) Unwrap() error { return e.err }

// An answer is what the provider reads.
type answer struct {
	Status  webhook.Outcome `json:"status"`
	Message string          `json:"message"`
	EventID string          `json:"event_id"`
	Events  []eventAnswer   `json:"events,omitempty"` // of a batch
}

// An eventAnswer is what came of one event of a batch.
type eventAnswer struct {
	EventID string          `json:"event_id"`
	Status  webhook.Outcome `json:"status"`
}

// write sends the answer. Nearly all have one id, of plain characters, and no
// list of events: those are put together without reflection.
func (a *answer) write(c echo.Context, code int) error {
	body := make([]byte, 0, 256)
	if len(a.Events) > 0 {
		var err error
		if body, err = json.Marshal(a); err != nil {
			return err
		}
	} else {
		body = append(body, `{"status":`...)
		body = appendText(body, string(a.Status))
		body = append(body, `,"message":`...)
		body = appendText(body, a.Message)
		body = append(body, `,"event_id":`...)
		body = append(appendText(body, a.EventID), '}')
	}
	h := c.Response().Header()
	h["Content-Type"], h["Content-Length"] = jsonType, []string{strconv.Itoa(len(body))}
	c.Response().WriteHeader(code)
	_, err := c.Response().Write(body)
	return err
}

// appendText appends s as a JSON string.
func appendText(b []byte, s string) []byte {
	for _, c := range []byte(s) {
		if c < ' ' || c > '~' || c == '"' || c == '\\' || c == '<' || c == '>' || c == '&' {
			quoted, _ := json.Marshal(s) // of a string: it cannot fail
			return append(b, quoted...)
		}
	}
	b = append(b, '"')
	b = append(b, s...)
	return append(b, '"')
}

// retryAfter is how many seconds a provider that honours it should wait.
const retryAfter = "5"

// judge is the one place where an error becomes a status, the words that the
// sender reads, and the one word that log and metrics have.
func judge(err error) (code int, message, reason string) {
	if _, ok := errors.AsType[*unheldError](err); ok {
		if errors.Is(err, errOverloaded) {
			return http.StatusServiceUnavailable, busyMessage, "overloaded"
		}
		return http.StatusServiceUnavailable, "The event cannot be held now: send it again.", "not_held"
	}
	if code, message, reason := judgeEdge(err); code != 0 {
		return code, message, reason
	}
	if tooLarge, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("Payload too large: the limit is %d bytes.", tooLarge.Limit), "too_large"
	}
	if media, ok := errors.AsType[*source.MediaError](err); ok {
		return http.StatusUnsupportedMediaType, media.Reason + ".", "media_type"
	}
	if many, ok := errors.AsType[*webhook.TooManyError](err); ok {
		return http.StatusRequestEntityTooLarge, fmt.Sprintf("Too many events: the limit is %d.", many.Limit), "too_many"
	}
	if invalid, ok := errors.AsType[*webhook.InvalidError](err); ok {
		return http.StatusBadRequest, "Invalid payload: " + invalid.Error() + ".", "invalid"
	}
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return http.StatusRequestTimeout, "The body did not come in time.", "too_slow"
	}
	if _, ok := errors.AsType[*unreadableError](err); ok {
		return http.StatusBadRequest, "Invalid payload: the body could not be read to its end.", "unreadable"
	}
	if _, ok := errors.AsType[*source.TokenError](err); ok {
		return http.StatusForbidden, "Verification failed.", "verify_token"
	}
	switch {
	case errors.Is(err, errUnknownSource):
		return http.StatusNotFound, "No such source.", "unknown_source"
	case errors.Is(err, errMethod):
		return http.StatusMethodNotAllowed, "Only POST is allowed.", "method"
	case errors.Is(err, webhook.ErrUnverified):
		return http.StatusUnauthorized, "Signature verification failed.", signatureReason(err)
	}
	return http.StatusServiceUnavailable, "The event cannot be held now: send it again.", "failed"
}

// signatureReason is for log and metric only: the sender is told nothing that
// would help to forge.
func signatureReason(err error) string {
	if e, ok := errors.AsType[*signature.Error](err); ok {
		return string(e.Reason)
	}
	return "unverified"
}

// refuse answers with an error. Nothing of the delivery may have been kept, so
// its hash is logged.
func (d *delivery) refuse(c echo.Context, err error) error {
	code, message, reason := judge(err)
	level := slog.LevelInfo
	if _, limited := errors.AsType[*rateError](err); code >= http.StatusInternalServerError && !limited {
		level = slog.LevelError
	}
	args := []any{"source", d.report.Source, "code", code, "reason", reason, "err", err}
	if !d.readAt.IsZero() {
		args = append(args, "body_sha256", hex.EncodeToString(d.sum[:]))
	}
	if reason == "overloaded" {
		d.Door.say()
	} else {
		d.Log.Log(c.Request().Context(), level, "delivery refused", args...)
	}
	setHeaders(c.Response().Header(), code, err)
	d.report.Reason = reason
	a := answer{Status: webhook.Refused, Message: message, EventID: d.eventID()}
	if d.isBatch() {
		a.Events, _ = d.settle(c)
	} else {
		d.observe(d.report)
	}
	if d.silent() {
		return c.NoContent(code)
	}
	return a.write(c, code)
}

// setHeaders sets what a refusal says besides its words.
func setHeaders(h http.Header, code int, err error) {
	switch code {
	case http.StatusServiceUnavailable, http.StatusTooManyRequests, http.StatusRequestTimeout:
		h.Set("Retry-After", retryAfter)
		if rate, ok := errors.AsType[*rateError](err); ok {
			h.Set("Retry-After", rate.seconds())
		}
	case http.StatusMethodNotAllowed:
		h.Set("Allow", http.MethodPost)
	}
	if code == http.StatusRequestEntityTooLarge || errors.Is(err, errNoRoom) || errors.Is(err, errAddress) {
		h.Set("Connection", "close") // or net/http reads the rest before it answers
	}
}

// isBatch reports whether the answer lists events.
func (d *delivery) isBatch() bool { return d.src != nil && d.src.Items != nil && len(d.entries) > 0 }

// eventID is the first id that could be read.
func (d *delivery) eventID() string {
	for i := range d.entries {
		if id := d.entries[i].event.ID; id != "" {
			return id
		}
	}
	return "unknown"
}

// acknowledge answers for events that are held, as far as they are to be.
func (d *delivery) acknowledge(c echo.Context) error {
	a := answer{EventID: d.eventID()}
	switch {
	case d.isBatch():
		var counts map[webhook.Outcome]int
		a.Events, counts = d.settle(c)
		a.Status, a.Message = summary(counts)
	case len(d.entries) == 0:
		a.Status, a.Message = webhook.Ignored, "No events in the delivery."
		d.report.Outcome = webhook.Ignored
		d.observe(d.report)
	default:
		e := &d.entries[0]
		a.Status, a.Message = e.outcome(), e.message()
		d.logEntry(c, e)
		d.observe(d.tell(e))
	}
	return d.accept(c, a)
}

// accept sends a 2xx.
func (d *delivery) accept(c echo.Context, a answer) error {
	switch {
	case d.src.AckStatus == http.StatusNoContent || d.silent():
		return c.NoContent(d.src.AckStatus)
	case d.src.AnswerBody != "":
		return c.String(d.src.AckStatus, d.src.AnswerBody)
	}
	return a.write(c, d.src.AckStatus)
}

// silent reports whether the provider wants no words in an answer.
func (d *delivery) silent() bool { return d.src != nil && d.src.Handshake == source.HandshakeXero }

// observe reports to the metrics. The time that an answer took is told once.
func (d *delivery) observe(r Report) {
	if !d.readAt.IsZero() {
		r.Took = d.Now().Sub(d.readAt)
		d.readAt = time.Time{}
	}
	d.Observe(r)
	d.report.NoReplayCheck, d.report.NoRateLimit = false, false
}

// unrouted answers what no route took: a path that is not ours, or a panic.
func (s *server) unrouted(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	d := &delivery{server: s, report: Report{Outcome: webhook.Refused}}
	if unrouted, ok := errors.AsType[*echo.HTTPError](err); ok {
		err = errUnknownSource
		if unrouted.Code == http.StatusMethodNotAllowed { // one that HTTP does not know
			err = errMethod
		}
	}
	if err := d.refuse(c, err); err != nil {
		s.Log.DebugContext(c.Request().Context(), "answer not sent", "err", err)
	}
}

func (s *server) panicked(c echo.Context, err error, stack []byte) error {
	s.Log.ErrorContext(c.Request().Context(), "panic in ingest", "err", err, "stack", string(stack))
	return err
}
