package ingest_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// wantNoneInUse waits until all bytes are given back: an answer may be read
// before its handler has returned.
func wantNoneInUse(t *testing.T, bodies *ingest.Bodies) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); bodies.InUse() != 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%d bytes are in use after all answers", bodies.InUse())
		}
	}
}

// blank is a payment of so many bytes.
func blank(id string, size int) string {
	body := strings.Replace(payment, "evt_1", id, 1)
	return body[:len(body)-1] + strings.Repeat(" ", size-len(body)) + "}"
}

// A delivery whose body finds no room is told to come back, and all bytes are
// free again after the answers, whatever they were.
func TestBodies(t *testing.T) {
	t.Parallel()
	const limit = 300 << 10
	bodies := ingest.NewBodies(limit)
	enter, leave := make(chan struct{}), make(chan struct{})
	r := newRig(t, func(o *ingest.Options) { o.Bodies = bodies })
	r.queue.answer = func(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
		if ev.ID == "evt_first" {
			close(enter)
			<-leave
		}
		return webhook.Receipt{Outcome: webhook.Accepted}, nil
	}
	srv := serve(t, r)
	send := func(id string, size int, chunked bool) (int, answer, http.Header) {
		var body io.Reader = strings.NewReader(blank(id, size))
		if chunked {
			body = io.MultiReader(body) // whose length nobody knows
		}
		res, err := http.Post(srv.URL+"/webhooks", "application/json", body)
		if err != nil {
			t.Error(err)
			return 0, answer{}, nil
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		a, err := parse(text)
		if err != nil {
			t.Error(err)
		}
		return res.StatusCode, a, res.Header
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		if code, _, _ := send("evt_first", 200<<10, false); code != 200 {
			t.Errorf("the first was answered %d", code)
		}
	})
	<-enter
	if n := bodies.InUse(); n < 200<<10 || n > 201<<10 {
		t.Errorf("%d bytes are in use for a body of 200 KiB", n)
	}
	for _, chunked := range []bool{false, true} {
		code, a, h := send("evt_second", 200<<10, chunked)
		want := answer{"error", "Too busy to read the body: send it again.", "unknown"}
		if code != 503 || a != want || h.Get("Retry-After") == "" {
			t.Errorf("the second (chunked: %t) was answered %d %+v", chunked, code, a)
		}
		if code, _, _ := send("evt_small", 200, chunked); code != 200 {
			t.Errorf("one that fits (chunked: %t) was answered %d", chunked, code)
		}
	}
	close(leave)
	wg.Wait()
	wantNoneInUse(t, bodies)
	for _, size := range []int{200, 64<<10 - 1, 64 << 10, 64<<10 + 1, 65<<10 + 1, 200 << 10} {
		for _, chunked := range []bool{false, true} {
			if code, _, _ := send(fmt.Sprint("evt_", size, chunked), size, chunked); code != 200 && size < 200<<10 {
				t.Errorf("%d bytes (chunked: %t) were answered %d", size, chunked, code)
			}
		}
	}
	wantNoneInUse(t, bodies)
	for _, ev := range r.queue.got() {
		if want := blank(ev.ID, len(ev.Body)); string(ev.Body) != want {
			t.Errorf("%s came with another body", ev.ID)
		}
	}
	if got := r.reports[len(r.reports)-1]; got.Source != "default" {
		t.Errorf("reported %+v", got)
	}
}

// A header alone takes no more room than the least: else a few strangers who
// never send what they announce could keep all others out.
func TestBodiesAnnounced(t *testing.T) {
	t.Parallel()
	bodies := ingest.NewBodies(1 << 30)
	srv := serve(t, newRig(t, func(o *ingest.Options) { o.Bodies = bodies }))
	w := dial(t, srv)
	w.write(t, "POST /webhooks/large HTTP/1.1\n"+head+"Content-Length: 20000000\n\n{")
	for bodies.InUse() == 0 {
		time.Sleep(time.Millisecond)
	}
	if n := bodies.InUse(); n > 65<<10 {
		t.Errorf("%d bytes are taken for a body of which one has come", n)
	}
	w.Close()
	wantNoneInUse(t, bodies)
}

// A checkingQueue takes what has the right body, and keeps nothing.
type checkingQueue struct {
	t    *testing.T
	body string
}

func (q checkingQueue) Enqueue(_ context.Context, ev webhook.Event) (webhook.Receipt, error) {
	if string(ev.Body) != q.body {
		q.t.Error("a body is not what was sent")
	}
	return webhook.Receipt{Outcome: webhook.Accepted}, nil
}

// A82: of 50 bodies of 25 MB at once, with and without a length, the memory
// does not have more at a time than the bound says.
func TestBodiesMemory(t *testing.T) {
	const each, senders, limit = 25 << 20, 50, 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(5)) // or garbage is what is measured
	d := toGitHub(t, `{"a":"`+strings.Repeat("x", each-8)+`"}`)
	bodies := ingest.NewBodies(limit)
	srv := serve(t, newRig(t, func(o *ingest.Options) { o.Bodies, o.Queue = bodies, checkingQueue{t, d.body} }))
	heap := func() int64 {
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	runtime.GC()
	before, most := heap(), int64(0)
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(2 * time.Millisecond):
				most = max(most, heap()-before)
			}
		}
	}()
	var mu sync.Mutex
	codes := map[int]int{}
	var wg sync.WaitGroup
	for i := range senders {
		wg.Go(func() {
			code := post25MB(srv.URL, d, i%2 == 0)
			mu.Lock()
			defer mu.Unlock()
			codes[code]++
		})
	}
	wg.Wait()
	close(stop)
	<-stopped
	if codes[200] == 0 || codes[200]+codes[503]+codes[0] != senders {
		t.Errorf("answers %v, want some 200 and the rest 503", codes)
	}
	if most > limit*3/2 {
		t.Errorf("the heap had %d MiB more, want %d at most", most>>20, limit>>20)
	}
	t.Logf("answers %v, %d MiB at most", codes, most>>20)
	wantNoneInUse(t, bodies)
}

// post25MB returns 0 if the connection was closed while it wrote.
func post25MB(url string, d delivery, chunked bool) int {
	body := struct{ io.Reader }{strings.NewReader(d.body)} // or the client copies it
	req, _ := http.NewRequest(http.MethodPost, url+"/webhooks/large", body)
	if !chunked {
		req.ContentLength = int64(len(d.body))
	}
	req.Header = d.header.Clone()
	res, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return 0
	}
	res.Body.Close()
	return res.StatusCode
}
