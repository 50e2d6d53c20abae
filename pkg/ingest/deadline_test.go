package ingest_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A slowBody comes byte by byte. Its seconds are those of synctest.
type slowBody struct {
	text  io.Reader
	pause time.Duration
	last  time.Time // when its last byte came
}

func (b *slowBody) Read(p []byte) (int, error) {
	n, err := b.text.Read(p[:1])
	if n > 0 {
		time.Sleep(b.pause)
		b.last = time.Now()
	}
	return n, err
}

// The deadline counts from the last byte, and is the queue's to keep.
func TestDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const ackTimeout = 800 * time.Millisecond
		r := newRig(t, func(o *ingest.Options) { o.AckTimeout, o.Now = ackTimeout, time.Now })
		var deadline time.Time
		r.queue.answer = func(ctx context.Context, _ webhook.Event) (webhook.Receipt, error) {
			deadline, _ = ctx.Deadline()
			<-ctx.Done()
			return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, ctx.Err())
		}
		body := &slowBody{text: strings.NewReader(payment), pause: time.Second}
		req := httptest.NewRequest("POST", "/webhooks", body)
		req.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		if got, err := parse(w.Body.Bytes()); w.Code != 503 || got.EventID != "evt_1" || err != nil || w.Header().Get("Retry-After") == "" {
			t.Errorf("answer = %d %+v, %v, want a 503 for evt_1", w.Code, got, err)
		}
		if got := deadline.Sub(body.last); got != ackTimeout {
			t.Errorf("the queue had %s, want %s", got, ackTimeout)
		}
		if got := time.Since(body.last); got != ackTimeout {
			t.Errorf("answered after %s, want %s", got, ackTimeout)
		}
		if ev := r.queue.got()[0]; !ev.ReceivedAt.Equal(body.last) {
			t.Errorf("received at %s, want %s", ev.ReceivedAt, body.last)
		}
		if r.reports[0].Took != ackTimeout {
			t.Errorf("reported %+v", r.reports[0])
		}
	})
}

// 17: who hangs up does not take the event back.
func TestClientHangsUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	requests, enqueues, release := make(chan context.Context, 1), make(chan context.Context, 1), make(chan struct{})
	r.queue.answer = func(ctx context.Context, _ webhook.Event) (webhook.Receipt, error) {
		enqueues <- ctx
		<-release
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	srv := serve(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		requests <- req.Context()
		r.ServeHTTP(w, req)
	}))
	w := dial(t, srv)
	w.write(t, post("/webhooks", "evt_1"))
	request, enqueue := <-requests, <-enqueues
	w.Close()
	<-request.Done()
	if err := enqueue.Err(); err != nil {
		t.Errorf("the client hung up, and the queue's context is %v", err)
	}
	if _, ok := enqueue.Deadline(); !ok {
		t.Error("the queue's context has no deadline")
	}
	close(release)
	srv.Close() // waits for the handler
	if r.reports[0].Outcome != webhook.Accepted {
		t.Errorf("reported %+v", r.reports)
	}
}

// withDoor lets so many deliveries in.
func withDoor(atOnce int) func(*ingest.Options) {
	return func(o *ingest.Options) { o.Door = ingest.NewDoor(atOnce, o.Now, o.Observe, o.Log) }
}

// 87: with all slots taken the next is refused at once, and slots come back.
func TestMaxInflight(t *testing.T) {
	t.Parallel()
	const slots = 3
	r := newRig(t, withDoor(slots))
	entered, release := make(chan struct{}), make(chan struct{})
	ends := []func() (webhook.Receipt, error){
		func() (webhook.Receipt, error) { return webhook.Receipt{Outcome: webhook.Accepted}, nil },
		func() (webhook.Receipt, error) { return webhook.Receipt{}, webhook.ErrNotHeld },
		func() (webhook.Receipt, error) { panic(errors.New("boom")) },
	}
	for _, end := range ends {
		r.queue.answer = func(context.Context, webhook.Event) (webhook.Receipt, error) {
			entered <- struct{}{}
			<-release
			return end()
		}
		var wg sync.WaitGroup
		for range slots {
			wg.Go(func() { r.send(toDefault(payment)) })
		}
		for range slots {
			<-entered
		}
		before := len(r.queue.got())
		w := r.send(toDefault(payment))
		want := answer{"error", "Too busy to hold the event: send it again.", "unknown"}
		if got, err := parse(w.Body.Bytes()); w.Code != 503 || got != want || err != nil || w.Header().Get("Retry-After") != "5" {
			t.Errorf("answer = %d %+v, %v, want 503 %+v", w.Code, got, err, want)
		}
		if length := w.Header().Get("Content-Length"); length != strconv.Itoa(w.Body.Len()) {
			t.Errorf("Content-Length is %s of %d bytes", length, w.Body.Len())
		}
		if report := r.reports[len(r.reports)-1]; report.Reason != "overloaded" {
			t.Errorf("reported %+v", report)
		}
		if n := len(r.queue.got()); n != before {
			t.Error("what was refused was enqueued")
		}
		for range slots {
			release <- struct{}{}
		}
		wg.Wait()
	}
	r.queue.answer = nil
	if w := r.send(toDefault(payment)); w.Code != 200 {
		t.Errorf("with all slots free, the answer is %d", w.Code)
	}
}

// TestOverloadIsSaidOnce logs a line a second, with a count, however many are
// turned away.
func TestOverloadIsSaidOnce(t *testing.T) {
	t.Parallel()
	var seconds atomic.Int64
	r := newRig(t, func(o *ingest.Options) {
		o.Now = func() time.Time { return noon.Add(time.Duration(seconds.Load()) * time.Second) }
	}, withDoor(1))
	entered, release := make(chan struct{}), make(chan struct{})
	r.queue.answer = func(context.Context, webhook.Event) (webhook.Receipt, error) {
		close(entered)
		<-release
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	var inside sync.WaitGroup
	inside.Go(func() { r.send(toDefault(payment)) })
	<-entered
	for range 2 {
		for range 100 {
			r.send(toDefault(payment))
		}
		seconds.Add(1)
	}
	close(release)
	inside.Wait()
	var counts []any
	for _, line := range r.logged(t) {
		if line["msg"] == "overloaded: deliveries are told to come back" {
			counts = append(counts, line["deliveries"])
		}
	}
	if len(counts) != 2 || counts[0] != 1.0 || counts[1] != 100.0 {
		t.Errorf("said of %v deliveries, want of the first, and a second later of 100 more", counts)
	}
}

// Field report A85: no request sees anything of another one.
func TestThousandAtOnce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	var all sync.WaitGroup
	r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
		if !strings.Contains(string(ev.Body), `"`+ev.ID+`"`) || ev.Headers["X-GitHub-Event"] != ev.ID {
			t.Errorf("the event %s has the body %s and the headers %q", ev.ID, ev.Body, ev.Headers)
		}
		return webhook.Receipt{Outcome: webhook.Duplicate, Layer: "taskid"}, nil
	}
	for i := range 1000 {
		id := fmt.Sprintf("evt_%04d", i)
		github := toGitHub(t, `{"n":"`+id+`"}`)
		github.header.Set("X-GitHub-Delivery", id)
		github.header.Set("X-GitHub-Event", id)
		refused := toDefault(strings.NewReplacer("evt_1", id, "1099", "-1").Replace(payment))
		all.Go(func() {
			for _, d := range []delivery{github, refused} {
				if got, err := parse(r.send(d).Body.Bytes()); got.EventID != id || err != nil {
					t.Errorf("the answer for %s to %s is %+v, %v", id, d.target, got, err)
				}
			}
		})
	}
	all.Wait()
	if events := r.queue.got(); len(events) != 1000 {
		t.Errorf("the queue got %d events", len(events))
	}
	if len(r.reports) != 2000 {
		t.Errorf("reported %d times", len(r.reports))
	}
}
