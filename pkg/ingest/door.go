package ingest

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

var errOverloaded = errors.New("too many deliveries at once")

// A door turns deliveries away while as many as may be are inside. It must cost
// far less than to take one: else a server that is asked for three times what it
// can do would do nothing but say no.
type door struct {
	*server
	inside http.Handler
}

// tooBusy is the answer, as [answer] would be written.
const tooBusy = `{"status":"error","message":"Too busy to hold the event: send it again.","event_id":"unknown"}`

func (d *door) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(d.slots) < cap(d.slots) {
		d.inside.ServeHTTP(w, r)
		return
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"], h["Retry-After"] = jsonType, tooBusyLength, retryAfterBusy
	w.WriteHeader(http.StatusServiceUnavailable)
	_, _ = w.Write([]byte(tooBusy)) // whoever has gone does not need to know
	d.sayBusy()
	d.Observe(Report{Source: d.named(r), Outcome: webhook.Refused, Reason: "overloaded"})
}

// Headers that are the same each time.
var (
	jsonType       = []string{"application/json"}
	tooBusyLength  = []string{strconv.Itoa(len(tooBusy))}
	retryAfterBusy = []string{retryAfter}
)

// named is the source that a request is for, if it is a known one.
func (d *door) named(r *http.Request) string {
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/webhooks"), "/")
	if name == "" {
		name = source.DefaultName
	}
	if d.sources[name] == nil {
		return ""
	}
	return name
}

// enter takes a slot, which the returned function gives back. It comes after the
// body was read: who sends slowly shall not keep others out.
func (s *server) enter() (leave func(), err error) {
	select {
	case s.slots <- struct{}{}:
		return func() { <-s.slots }, nil
	default:
		return nil, &unheldError{errOverloaded}
	}
}

// busy counts those who were turned away since it was last said.
type busy struct {
	count  atomic.Int64
	saidAt atomic.Int64 // Unix seconds
}

// sayBusy logs once a second: a line for each would be the next overload.
func (s *server) sayBusy() {
	n := s.busy.count.Add(1)
	now := s.Now().Unix()
	if said := s.busy.saidAt.Load(); now == said || !s.busy.saidAt.CompareAndSwap(said, now) {
		return
	}
	s.busy.count.Add(-n)
	s.Log.Error("overloaded: deliveries are told to come back", "deliveries", n, "at_once", cap(s.slots))
}
