// Package ingest is the HTTP edge: it reads a delivery, checks that it comes
// from the provider, puts its event on the queue, and answers. It never says
// 2xx of an event that is not held outside the process.
package ingest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"log/slog"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/labstack/echo/v4"
	"github.com/labstack/echo/v4/middleware"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A Queue holds events. Its error wraps [webhook.ErrNotHeld] if it does not.
type Queue interface {
	Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error)
}

// Options are the parts of ingest. All must be set but the last.
type Options struct {
	Queue       Queue
	Sources     []source.Source
	AckTimeout  time.Duration // from the last byte of a delivery to its answer, at most
	MaxInflight int           // deliveries that wait for the queue at once; more are refused at once
	Now         func() time.Time
	Observe     func(Report) // called once for each answer
	Log         *slog.Logger

	Proxies Proxies     // none: all peers are clients
	Bodies  *Bodies     // nil: no bound
	Limiter Limiter     // nil: rates are not kept
	Replays Replays     // nil: replays are not looked for
	Away    func() bool // that the two count as away; nil: never
}

// A Report tells of one answer.
type Report struct {
	Source    string // "" of a source that is not configured
	Outcome   webhook.Outcome
	Reason    string // why it was refused, in one word
	Layer     string // of a duplicate: what caught it
	OtherBody bool
	Took      time.Duration // from the last byte of the delivery; 0 if it was not read

	NoReplayCheck, NoRateLimit bool // there should have been one, and Redis did not say
}

type server struct {
	Options
	sources map[string]*source.Source
	slots   chan struct{}
}

// New returns the public handler: POST /webhooks/{source}, and POST /webhooks
// for the source named default. Anything else is refused.
func New(o Options) http.Handler {
	s := &server{Options: o, sources: map[string]*source.Source{}, slots: make(chan struct{}, o.MaxInflight)}
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
	return e
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
	ctx := c.Request().Context()
	err := d.admit(c.Request())
	if err == nil {
		err = d.read(c.Request(), c.Response())
	}
	if err == nil {
		err = d.understand(c.Request())
	}
	if err == nil {
		d.findReplay(ctx, d.event)
		err = d.keepRate(ctx)
	}
	if err != nil {
		return d.refuse(c, err)
	}
	receipt, err := d.hold(ctx)
	if err != nil {
		return d.refuse(c, &unheldError{err})
	}
	return d.acknowledge(c, d.settleReplay(ctx, receipt))
}

// A delivery is one request on its way through ingest.
type delivery struct {
	*server
	src    *source.Source
	readAt time.Time // when its last byte came; zero before
	event  webhook.Event
	report Report
	room   room
	replay replay
}

func (d *delivery) bodySHA256() [sha256.Size]byte { return d.event.SHA256 }

// read reads the body, unless the head of the request already says that it is
// not for us.
func (d *delivery) read(r *http.Request, w http.ResponseWriter) error {
	if r.Method != http.MethodPost {
		return errMethod
	}
	if err := checkMedia(r.Header); err != nil {
		return err
	}
	if r.ContentLength > d.src.MaxBody {
		return &http.MaxBytesError{Limit: d.src.MaxBody}
	}
	body, err := d.room.readAll(http.MaxBytesReader(w, r.Body, d.src.MaxBody), r.ContentLength, d.src.MaxBody)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errNoRoom) {
			return err
		}
		return &unreadableError{err}
	}
	d.readAt = d.Now()
	d.event.Body, d.event.SHA256 = body, sha256.Sum256(body)
	return nil
}

// checkMedia accepts JSON in UTF-8, as it is: other encodings of the body would
// be guesses at what was signed.
func checkMedia(h http.Header) error {
	types := h.Values("Content-Type")
	if len(types) != 1 {
		return &mediaError{"Content-Type must be given once"}
	}
	media, params, err := mime.ParseMediaType(types[0])
	isJSON := media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
	if err != nil || !isJSON {
		return &mediaError{"Content-Type must be application/json"}
	}
	if charset, ok := params["charset"]; ok && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "utf8") {
		return &mediaError{"charset must be utf-8"}
	}
	if encoding := strings.Join(h.Values("Content-Encoding"), ","); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return &mediaError{"Content-Encoding must not be used"}
	}
	return nil
}

// understand checks who sent the body, and only then what it says.
func (d *delivery) understand(r *http.Request) error {
	signed := signature.Request{Method: r.Method, URL: d.Proxies.url(d.src, r), Header: r.Header, Body: d.event.Body}
	if err := d.src.Verify(signed, d.readAt); err != nil {
		return err
	}
	id, typ, err := d.src.Read(r.Header, d.event.Body)
	d.event.ID = id
	if err != nil {
		return err
	}
	d.event.Source, d.event.Type = d.src.Name, typ
	d.event.Delivery = rand.Text()
	d.event.ReceivedAt = d.readAt
	d.event.ContentType = r.Header.Get("Content-Type")
	d.event.Headers = kept(r.Header, d.src.KeepHeaders)
	d.event.TraceParent = traceParent(r.Header)
	return nil
}

func kept(h http.Header, names []string) map[string]string {
	kept := map[string]string{}
	for _, name := range names {
		if values := h.Values(name); len(values) > 0 {
			kept[name] = strings.Join(values, ", ")
		}
	}
	return kept
}

// https://www.w3.org/TR/trace-context/#traceparent-header
var validTraceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

func traceParent(h http.Header) string {
	if tp := h.Get("Traceparent"); validTraceParent.MatchString(tp) {
		return tp
	}
	return ""
}

// hold puts the event on the queue within what is left of the deadline. The
// deadline outlives a client that hangs up: the event is here now.
func (d *delivery) hold(ctx context.Context) (webhook.Receipt, error) {
	select {
	case d.slots <- struct{}{}:
		defer func() { <-d.slots }()
	default:
		return webhook.Receipt{}, errOverloaded
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.AckTimeout-d.Now().Sub(d.readAt))
	defer cancel()
	ev := d.event
	ev.ID = d.heldAs(0, ev.ID)
	return d.Queue.Enqueue(ctx, ev)
}
