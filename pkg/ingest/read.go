package ingest

import (
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"net/http"
	"regexp"
	"strings"

	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// read reads the body, unless the head of the request already says that it is
// not for us.
func (d *delivery) read(r *http.Request, w http.ResponseWriter) error {
	if r.Method != http.MethodPost {
		return errMethod
	}
	if err := d.checkHead(r.Header); err != nil {
		return err
	}
	if r.ContentLength > d.src.MaxBody {
		return &http.MaxBytesError{Limit: d.src.MaxBody}
	}
	if d.src.Verifier != nil && r.Header.Get("Expect") != "" { // the client waits for us to ask for the body
		if err := d.src.Verifier.Head(r.Header); err != nil {
			return err
		}
	}
	body, err := d.room.readAll(http.MaxBytesReader(w, r.Body, d.src.MaxBody), r.ContentLength, d.src.MaxBody)
	if err != nil {
		if _, ok := errors.AsType[*http.MaxBytesError](err); ok || errors.Is(err, errNoRoom) {
			return err
		}
		return &unreadableError{err}
	}
	d.readAt = d.Now()
	d.body, d.sum = body, sha256.Sum256(body)
	return nil
}

// checkHead refuses what the source does not take.
func (d *delivery) checkHead(h http.Header) error {
	if _, err := d.src.Kind(h); err != nil {
		return err
	}
	return d.checkEncoding(h)
}

// verify checks who sent the body, and returns the index of the secret that it
// was signed with.
func (d *delivery) verify(r *http.Request) (int, error) {
	if d.gzipped && d.src.Gzip == source.GzipPlain {
		if err := d.inflate(); err != nil {
			return -1, err
		}
	}
	secret, err := d.src.Match(signature.Request{Method: r.Method, URL: d.Proxies.url(d.src, r), Header: r.Header, Body: d.body}, d.readAt)
	if err == nil && d.gzipped {
		err = d.inflate()
	}
	return secret, err
}

// understand reads the events of a delivery that was verified.
func (d *delivery) understand(r *http.Request) error {
	items, err := d.src.Read(r.Header, d.body)
	d.entries = d.single[:0]
	if len(items) > 1 {
		d.entries = make([]entry, 0, len(items))
	}
	headers, trace := kept(r.Header, d.src.KeepHeaders), traceParent(r.Header)
	for _, item := range items {
		e := d.entry(item)
		e.event.ContentType, e.event.Headers, e.event.TraceParent = r.Header.Get("Content-Type"), headers, trace
		d.entries = append(d.entries, e)
	}
	return err
}

// entry makes an event of an item.
func (d *delivery) entry(item source.Item) entry {
	e := entry{event: webhook.Event{ID: item.ID, Body: item.Body}, invalid: item.Err}
	if item.Ignored {
		e.receipt.Outcome = webhook.Ignored
	}
	if item.Err != nil {
		return e
	}
	ev := &e.event
	ev.SHA256 = d.sum
	if d.src.Items != nil {
		ev.SHA256 = sha256.Sum256(ev.Body)
	}
	ev.Source, ev.Type = d.src.Name, item.Type
	ev.Delivery = rand.Text()
	ev.ReceivedAt = d.readAt
	return e
}

func kept(h http.Header, names []string) map[string]string {
	if len(names) == 0 {
		return nil
	}
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
	if tp := h.Get("Traceparent"); tp != "" && validTraceParent.MatchString(tp) {
		return tp
	}
	return ""
}
