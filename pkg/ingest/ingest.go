// Package ingest is the HTTP edge: it reads a delivery, checks that it comes
// from the provider, has its events held, and answers. It never says 2xx of an
// event that is not held outside the process.
package ingest

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Queue holds events. Its error wraps [webhook.ErrNotHeld] if it does not.
type Queue interface {
	Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error)
}

// Options are the parts of ingest. Those of the first group must be set.
type Options struct {
	Queue      Queue
	Sources    []source.Source
	AckTimeout time.Duration // from the last byte of a delivery to its answer, at most
	Door       *Door         // how many deliveries are in hand at once
	Now        func() time.Time
	Observe    func(Report) // called for each event of an answer, and once for an answer without any
	Log        *slog.Logger

	Proxies Proxies     // none: all peers are clients
	Bodies  *Bodies     // nil: no bound
	Limiter Limiter     // nil: rates are not kept
	Replays Replays     // nil: replays are not looked for
	Away    func() bool // that the two count as away; nil: never
}

// A Report tells of one event of an answer, or of an answer that has none.
type Report struct {
	Source    string // "" of a source that is not configured
	Outcome   webhook.Outcome
	Reason    string // why it was refused, in one word
	Layer     string // of a duplicate: what caught it
	OtherBody bool
	Took      time.Duration // from the last byte of the delivery; 0 if it was not read, and of all events of a batch but the first

	NoReplayCheck, NoRateLimit bool // there should have been one, and Redis did not say; told once of a delivery
}

type server struct {
	Options
	sources map[string]*source.Source
}

// New returns the public handler: POST /webhooks/{source}, and POST /webhooks
// for the source named default. Anything else is refused.
func New(o Options) http.Handler {
	s := &server{Options: o, sources: map[string]*source.Source{}}
	if s.Away == nil {
		s.Away = func() bool { return false }
	}
	for _, src := range o.Sources {
		s.sources[src.Name] = &src
	}
	e := echo.New()
	e.HTTPErrorHandler = s.unrouted
	e.Use(middleware.RecoverWithConfig(middleware.RecoverConfig{LogErrorFunc: s.panicked}))
	e.Any("/webhooks", s.receive)         // a provider, for each event of the source default
	e.Any("/webhooks/:source", s.receive) // a provider, for each event
	return o.Door.handler(e)
}

// receive takes one delivery through all steps. Each step that fails ends it.
func (s *server) receive(c echo.Context) error {
	name := c.Param("source")
	if c.Path() == "/webhooks" {
		name = source.DefaultName
	}
	d := &delivery{server: s, report: Report{Outcome: webhook.Refused}}
	src, ok := s.sources[name]
	if !ok {
		return d.refuse(c, errUnknownSource)
	}
	d.src, d.report.Source = src, name
	d.room.bodies = s.Bodies
	defer d.room.leave()
	if done, err := d.take(c); err != nil {
		return d.refuse(c, err)
	} else if done {
		return nil
	}
	return d.acknowledge(c)
}

// take holds the events of a delivery. It reports true if there was none and
// the request is answered.
func (d *delivery) take(c echo.Context) (done bool, err error) {
	r := c.Request()
	if err := d.admit(r); err != nil {
		return false, err
	}
	if done, err := d.greetGet(c); done {
		return true, err
	}
	if err := d.read(r, c.Response()); err != nil {
		return false, err
	}
	leave, err := d.Door.enter()
	if err != nil {
		return false, err
	}
	defer leave()
	secret, err := d.verify(r)
	if err != nil {
		return false, err
	}
	if done, err := d.greetPost(c, secret); done {
		return true, err
	}
	if err := d.understand(r); err != nil {
		return false, err
	}
	return false, d.hold(r.Context())
}

// A delivery is one request on its way through ingest.
type delivery struct {
	*server
	src     *source.Source
	readAt  time.Time // when its last byte came; zero before
	body    []byte
	sum     [sha256.Size]byte // of body
	gzipped bool              // body is compressed yet
	entries []entry
	single  [1]entry // what entries are, of nearly all deliveries
	only    [1]*entry
	report  Report
	room    room
	replay  replay
}

// An entry is one event of a delivery, and what came of it.
type entry struct {
	event   webhook.Event
	heldAs  string // the id under which it is held
	receipt webhook.Receipt
	invalid error // why there is no such event
	unheld  error // why it is not held
}
