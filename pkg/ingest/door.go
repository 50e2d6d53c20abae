package ingest

import (
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/hookonce/hookonce/pkg/webhook"
)

var errOverloaded = errors.New("too many deliveries at once")

// A Door turns deliveries away while as many as may be are inside. That must
// cost far less than to take one: else a server that is asked for three times
// what it can do would do nothing but say no.
//
// A handler keeps to its door by itself; [Door.Listen] saves more, by answering
// before HTTP is read.
type Door struct {
	slots   chan struct{}
	now     func() time.Time
	observe func(Report)
	log     *slog.Logger

	coming atomic.Int64 // connections that the server has a whole request of, and did not answer
	count  atomic.Int64 // of those turned away since it was last said
	saidAt atomic.Int64 // Unix seconds
}

// NewDoor returns a door that lets so many deliveries in at once, from the last
// byte of the delivery to its answer. Each that is turned away is observed, and
// the log has a line of them each second.
func NewDoor(atOnce int, now func() time.Time, observe func(Report), log *slog.Logger) *Door {
	return &Door{slots: make(chan struct{}, atOnce), now: now, observe: observe, log: log}
}

// full reports whether a delivery that comes now is turned away.
func (d *Door) full() bool { return len(d.slots) == cap(d.slots) }

// expect counts a delivery that is there whole, before it has a slot: else all
// that come before the first has one would find the door open. It reports false
// if the delivery is to be turned away.
func (d *Door) expect() bool {
	if d.full() {
		return false
	}
	if d.coming.Add(1) > int64(cap(d.slots)) {
		d.coming.Add(-1)
		return false
	}
	return true
}

// enter takes a slot, which the returned function gives back. It comes after the
// body was read: who sends slowly shall not keep others out.
func (d *Door) enter() (leave func(), err error) {
	select {
	case d.slots <- struct{}{}:
		return func() { <-d.slots }, nil
	default:
		return nil, &unheldError{errOverloaded}
	}
}

// handler turns requests away before they are read.
func (d *Door) handler(inside http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.full() {
			inside.ServeHTTP(w, r)
			return
		}
		h := w.Header()
		h["Content-Type"], h["Content-Length"], h["Retry-After"] = jsonType, busyLength, busyRetryAfter
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(busyAnswer)) // whoever has gone does not need to know
		d.turnedAway()
	})
}

const (
	busyMessage = "Too busy to hold the event: send it again."
	// busyAnswer is the [answer] to all that are turned away.
	busyAnswer = `{"status":"error","message":"` + busyMessage + `","event_id":"unknown"}`
)

// Headers that are the same each time.
var (
	jsonType       = []string{"application/json"}
	busyLength     = []string{strconv.Itoa(len(busyAnswer))}
	busyRetryAfter = []string{retryAfter}
)

// turnedAway tells of a delivery of which nothing is known.
func (d *Door) turnedAway() {
	d.say()
	d.observe(Report{Outcome: webhook.Refused, Reason: "overloaded"})
}

// say logs once a second: a line for each would be the next overload.
func (d *Door) say() {
	n := d.count.Add(1)
	now := d.now().Unix()
	if said := d.saidAt.Load(); now == said || !d.saidAt.CompareAndSwap(said, now) {
		return
	}
	d.count.Add(-n)
	d.log.Error("overloaded: deliveries are told to come back", "deliveries", n, "at_once", cap(d.slots))
}
