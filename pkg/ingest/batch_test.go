package ingest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// batches is a source of an array of events at /events, or of an array alone.
func batches(pointer string) source.Source {
	src := source.New("batch")
	src.ID = []source.Locator{{JSON: source.Pointer("/id")}}
	src.Type = []source.Locator{{JSON: source.Pointer("/type")}}
	src.Items = &source.Locator{JSON: source.Pointer(pointer)}
	src.MaxBody = 8 << 20
	return src
}

// only has ingest know one source.
func only(src source.Source) func(*ingest.Options) {
	return func(o *ingest.Options) { o.Sources = []source.Source{src} }
}

func toBatch(body string) delivery {
	return delivery{"POST", "/webhooks/batch", http.Header{"Content-Type": {"application/json"}}, body}
}

// event writes an item of a batch.
func event(id string) string { return fmt.Sprintf(`{"id":%q,"type":"t"}`, id) }

// A listing is an answer to several events.
type listing struct {
	Status, Message string
	EventID         string `json:"event_id"`
	Events          []struct {
		EventID string `json:"event_id"`
		Status  string
	}
}

func (l listing) String() string {
	text := fmt.Sprintf("%s %s %s", l.Status, l.EventID, l.Message)
	for _, e := range l.Events {
		text += fmt.Sprintf(" %s=%s", e.EventID, e.Status)
	}
	return text
}

func list(t *testing.T, body []byte) listing {
	t.Helper()
	var l listing
	if err := json.Unmarshal(body, &l); err != nil {
		t.Fatalf("answer %q: %v", body, err)
	}
	return l
}

func TestBatch(t *testing.T) {
	t.Parallel()
	known := map[string]webhook.Receipt{
		"dup":  {Outcome: webhook.Duplicate, Layer: "taskid"},
		"done": {Outcome: webhook.Duplicate, Layer: "taskid", Done: true},
		"dead": {Outcome: webhook.Requeued},
	}
	tests := []struct {
		name, body string
		code       int
		want       string
		held       string // ids that the queue was given, in any order
	}{
		{"A65 all new", "[" + event("a") + "," + event("b") + "]", 200, "accepted a 2 accepted. a=accepted b=accepted", "a b"},
		{"A65 partly known", "[" + event("dup") + "," + event("b") + "]", 200, "accepted dup 1 accepted, 1 duplicate. dup=duplicate b=accepted", "dup b"},
		{"all known", "[" + event("dup") + "," + event("done") + "]", 200, "duplicate dup 2 duplicate. dup=duplicate done=duplicate", "dup done"},
		{"one dead", "[" + event("dup") + "," + event("dead") + "]", 200, "requeued dup 1 requeued, 1 duplicate. dup=duplicate dead=requeued", "dup dead"},
		{"of all kinds", "[" + event("dup") + "," + event("dead") + `,{"id":"x","type":"noise"},` + event("a") + `,{"id":"y"},7]`, 200,
			"error dup 2 error, 1 accepted, 1 requeued, 1 duplicate, 1 ignored. dup=duplicate dead=requeued x=ignored a=accepted y=error unknown=error", "dup dead a"},
		{"one", "[" + event("a") + "]", 200, "accepted a 1 accepted. a=accepted", "a"},
		{"an object", event("a"), 200, "accepted a 1 accepted. a=accepted", "a"},
		{"73 one without an id", `[{"type":"t"},` + event("b") + "]", 200, "error b 1 error, 1 accepted. unknown=error b=accepted", "b"},
		{"73 none with an id", `[{"type":"t"},7]`, 400, "error unknown Invalid payload: id: is missing. unknown=error unknown=error", ""},
		{"75 empty", "[]", 200, "ignored unknown No events in the delivery.", ""},
		{"all ignored", `[{"id":"x","type":"noise"}]`, 200, "ignored x 1 ignored. x=ignored", ""},
		{"one twice", "[" + event("a") + "," + event("b") + "," + event("a") + "]", 200, "accepted a 2 accepted, 1 duplicate. a=accepted b=accepted a=duplicate", "a b"},
		{"76 one twice, with another body", "[" + event("dup") + `,{"id":"dup","type":"other"}]`, 200, "duplicate dup 2 duplicate. dup=duplicate dup=duplicate", "dup dup"},
		{"49 broken", "[" + event("a") + ",", 400, "error unknown Invalid payload: broken JSON at byte 23: unexpected EOF.", ""},
		{"52 a text", `"x"`, 400, "error unknown Invalid payload: is a string, want an array.", ""},
		{"75 100,000 items", "[" + strings.Repeat("7,", 99_999) + "7]", 413, "error unknown Too many events: the limit is 10000.", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			src := batches("")
			src.Ignore = []string{"noise"}
			r := newRig(t, only(src))
			r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
				if receipt, ok := known[ev.ID]; ok {
					return receipt, nil
				}
				return webhook.Receipt{Outcome: webhook.Accepted}, nil
			}
			w := r.send(toBatch(tt.body))
			if got := list(t, w.Body.Bytes()).String(); w.Code != tt.code || got != tt.want {
				t.Errorf("answer = %d %s, want %d %s", w.Code, got, tt.code, tt.want)
			}
			held := map[string]int{}
			for _, ev := range r.queue.got() {
				held[ev.ID]++
				if !strings.Contains(tt.body, string(ev.Body)) || !strings.HasPrefix(string(ev.Body), `{"id":"`+ev.ID) || ev.SHA256 != sum(ev.Body) || ev.Delivery == "" {
					t.Errorf("the queue got %s with the body %s", ev.ID, ev.Body)
				}
			}
			for _, id := range strings.Fields(tt.held) {
				held[id]--
			}
			for id, n := range held {
				if n != 0 {
					t.Errorf("the queue got %s %d times more than it should", id, n)
				}
			}
			if n := strings.Count(tt.want, "="); len(r.reports) != max(n, 1) {
				t.Errorf("reported %d times, of %d events", len(r.reports), n)
			}
		})
	}
}

// The items of a batch are counted each with its outcome, and the time of the
// answer once.
func TestBatchReports(t *testing.T) {
	t.Parallel()
	clock := noon
	r := newRig(t, only(batches("")), func(o *ingest.Options) {
		o.Now = func() time.Time {
			clock = clock.Add(time.Second)
			return clock
		}
	})
	r.send(toBatch("[" + event("a") + `,{"type":"t"},` + event("a") + "]"))
	want := []ingest.Report{
		{Source: "batch", Outcome: webhook.Accepted, Took: 2 * time.Second},
		{Source: "batch", Outcome: webhook.Refused, Reason: "invalid"},
		{Source: "batch", Outcome: webhook.Duplicate, Layer: "batch"},
	}
	if fmt.Sprint(r.reports) != fmt.Sprint(want) {
		t.Errorf("reported %+v, want %+v", r.reports, want)
	}
}

// All are held, or the provider must send all again; those that are held are
// duplicates by then.
func TestBatchNotHeld(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func() (webhook.Receipt, error){
		"not held": func() (webhook.Receipt, error) { return webhook.Receipt{}, webhook.ErrNotHeld },
		"panic":    func() (webhook.Receipt, error) { panic(errors.New("boom")) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, only(batches("/events")))
			r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
				if ev.ID == "b" {
					return fail()
				}
				return webhook.Receipt{Outcome: webhook.Accepted}, nil
			}
			w := r.send(toBatch(`{"events":[` + event("a") + "," + event("b") + "," + event("c") + "]}"))
			const want = "error a The event cannot be held now: send it again. a=accepted b=error c=accepted"
			if got := list(t, w.Body.Bytes()).String(); w.Code != 503 || got != want || w.Header().Get("Retry-After") == "" {
				t.Errorf("answer = %d %s, want 503 %s", w.Code, got, want)
			}
		})
	}
}

// However many items there are, they share the one deadline, and a bounded
// number is on its way at a time.
func TestBatchDeadline(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, only(batches("")), func(o *ingest.Options) { o.AckTimeout, o.Now = time.Second, time.Now })
		var now, most atomic.Int32
		r.queue.answer = func(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
			most.Store(max(most.Load(), now.Add(1)))
			defer now.Add(-1)
			select {
			case <-time.After(100 * time.Millisecond):
				return webhook.Receipt{Outcome: webhook.Accepted}, nil
			case <-ctx.Done():
				return webhook.Receipt{}, fmt.Errorf("%w: %w", webhook.ErrNotHeld, ctx.Err())
			}
		}
		for n, code := range map[int]int{200: 200, 2000: 503} {
			var items []string
			for i := range n {
				items = append(items, event(fmt.Sprint(i)))
			}
			start := time.Now()
			w := r.send(toBatch("[" + strings.Join(items, ",") + "]"))
			if took := time.Since(start); w.Code != code || took > time.Second || most.Load() > 128 {
				t.Errorf("%d items: answer = %d after %s, %d at once, want %d", n, w.Code, took, most.Load(), code)
			}
		}
	})
}

// A batch of nothing but faults does not fill the log.
func TestBatchLog(t *testing.T) {
	t.Parallel()
	r := newRig(t, only(batches("")))
	r.send(toBatch("[" + strings.Repeat("7,", 5000) + event("a") + "]"))
	lines := r.logged(t)
	if last := lines[len(lines)-1]; len(lines) != 22 || last["events"] != 4980.0 || len(r.reports) != 5001 {
		t.Errorf("%d lines, the last %v, and %d reports", len(lines), last, len(r.reports))
	}
}

// What a batch has in the answer is for the provider; 204 and a certain answer
// stay as they are.
func TestBatchAnswers(t *testing.T) {
	t.Parallel()
	body := "[" + event("a") + "]"
	adyen, silent := batches(""), batches("")
	adyen.AnswerBody = "[accepted]"
	silent.AckStatus = 204
	for want, src := range map[string]source.Source{"200 [accepted]": adyen, "204 ": silent} {
		r := newRig(t, only(src))
		w := r.send(toBatch(body))
		if got := fmt.Sprint(w.Code, " ", w.Body); got != want {
			t.Errorf("answer = %s, want %s", got, want)
		}
		if w := r.send(toBatch("{")); w.Code != 400 || !strings.Contains(w.Body.String(), "Invalid payload") {
			t.Errorf("a refusal is answered %d %s", w.Code, w.Body)
		}
	}
}

// TestSameMessageOtherID takes deliveries that differ in nothing but the id for
// what their provider says that they are: that they mean one thing is for the
// handler to see, by a key of its business. (A24)
func TestSameMessageOtherID(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	for i := range 11 {
		d := toStripe(t, fmt.Sprintf(`{"id":"Ev%02d","type":"message","text":"hello"}`, i), noon)
		if w := r.send(d); w.Code != 200 || !strings.Contains(w.Body.String(), `"accepted"`) {
			t.Errorf("%d: answered %d %s", i, w.Code, w.Body)
		}
	}
	if n := len(r.queue.got()); n != 11 {
		t.Errorf("the queue got %d events, want 11", n)
	}
}
