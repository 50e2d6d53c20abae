package program_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/ingest"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/replay"
	"github.com/hookonce/hookonce/pkg/signature"
	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// A flaky queue fails for every third event, after it held it or before.
type flaky struct {
	*queue.Client
	n atomic.Int64
}

func (f *flaky) Enqueue(ctx context.Context, ev webhook.Event) (webhook.Receipt, error) {
	switch f.n.Add(1) % 6 {
	case 0:
		return webhook.Receipt{}, webhook.ErrNotHeld
	case 3:
		_, err := f.Client.Enqueue(ctx, ev)
		return webhook.Receipt{}, errors.Join(err, webhook.ErrNotHeld) // its answer was lost
	}
	return f.Client.Enqueue(ctx, ev)
}

// TestReplayRace has many senders deliver the same bytes at once, each under an
// id of its own, to two ingests whose queue fails now and then, until each has a
// 2xx. However they meet, the bytes are held: under the id that the mark names,
// and under no id that was not answered for.
func TestReplayRace(t *testing.T) {
	t.Parallel()
	const rounds, senders = 15, 12
	name := stacktest.Source(t)
	src := source.New(name)
	preset, _ := source.FindPreset("github")
	verifier, err := preset.Scheme.Verifier([]string{"secret"})
	if err != nil {
		t.Fatal(err)
	}
	src.ID, src.Type, src.Verifier, src.Replay = preset.ID, preset.Type, verifier, time.Hour
	rdb, err := queue.Dial(stacktest.Redis(t), queue.Profile{Read: 10 * time.Second, Pool: 64})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	settings := map[string]queue.Settings{name: {Timeout: time.Minute, Retention: time.Minute}}
	ctx, stop := context.WithCancel(t.Context())
	var written sync.WaitGroup
	var servers []*httptest.Server
	var marks []*replay.Marks
	for range 2 {
		log := slog.New(slog.DiscardHandler)
		m := replay.New(rdb, log)
		written.Go(func() { m.Run(ctx) })
		marks = append(marks, m)
		servers = append(servers, httptest.NewServer(ingest.New(ingest.Options{
			Queue: &flaky{Client: queue.NewClient(rdb, settings)}, Sources: []source.Source{src},
			AckTimeout: 10 * time.Second, Door: ingest.NewDoor(1000, time.Now, func(ingest.Report) {}, log), Now: time.Now, Observe: func(ingest.Report) {}, Log: log, Replays: m,
		})))
	}
	var unknown atomic.Int64 // ids of which the last word was a 503
	bodyOf := func(round int) []byte { return fmt.Appendf(nil, `{"round":%d}`, round) }
	send := func(round, sender, try int) answer {
		h := sign(t, signature.GitHub(), "secret", bodyOf(round))
		h.Set("X-GitHub-Delivery", fmt.Sprintf("d-%d-%d-%d", round, sender, try))
		h.Set("X-GitHub-Event", "push")
		a, err := tryPost(servers[sender%2].URL+"/webhooks/"+name, h, bodyOf(round))
		if err != nil {
			t.Error(err)
		}
		return a
	}
	for round := range rounds {
		var wg sync.WaitGroup
		barrier := make(chan struct{})
		for sender := range senders {
			wg.Go(func() {
				<-barrier
				for try := 0; ; try++ { // as one who makes up a new id each time
					a := send(round, sender, try)
					if a.Code == http.StatusOK {
						return
					}
					unknown.Add(1)
					if a.Code != http.StatusServiceUnavailable {
						t.Errorf("answered %+v", a)
						return
					}
				}
			})
		}
		close(barrier)
		wg.Wait()
		for { // it is known by now
			a := send(round, 0, 1000)
			if a.Code == http.StatusOK {
				if a.Status != "duplicate" {
					t.Errorf("round %d: the last was answered %+v, want a duplicate", round, a)
				}
				break
			}
		}
	}
	for _, srv := range servers {
		srv.Close()
	}
	stop()
	written.Wait()
	for round := range rounds {
		sum := replaySum(bodyOf(round), "push")
		id, err := marks[0].First(t.Context(), name, sum)
		if err != nil || id == "" {
			t.Errorf("round %d: the bytes are not known: %v", round, err)
			continue
		}
		held, err := queue.Look(t.Context(), rdb, name, id)
		if err != nil || !bytes.Equal(held.Payload, bodyOf(round)) {
			t.Errorf("round %d: %s is marked, and held are %q, %v", round, id, held.Payload, err)
		}
	}
	if unknown.Load() == 0 {
		t.Error("no hold failed")
	}
}

// replaySum is how ingest tells bytes apart.
func replaySum(body []byte, typ string) [sha256.Size]byte {
	sum := sha256.Sum256(body)
	return sha256.Sum256(append(sum[:], typ+"\n"...))
}

// TestReplayPrograms replays to real programs, while the event waits and when it
// is done, and to another ingest than the first.
func TestReplayPrograms(t *testing.T) {
	t.Parallel()
	name := stacktest.Source(t)
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), fmt.Sprintf("sources: {%s: {provider: github, secrets: [secret]}}\n", name))
	rdb, err := queue.Dial(s.redisURL, queue.Profile{Read: 10 * time.Second, Pool: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	first, second := s.start("ingest"), s.start("ingest")
	body := []byte(`{"zen":"Keep it logically awesome."}`)
	send := func(p *process, id string) answer {
		h := sign(t, signature.GitHub(), "secret", body)
		h.Set("X-GitHub-Delivery", id)
		h.Set("X-GitHub-Event", "ping")
		return post(t, p.url+"/webhooks/"+name, h, body)
	}
	want := func(a answer, status, id string) {
		t.Helper()
		if a.Code != 200 || a.Status != status || a.EventID != id {
			t.Errorf("answered %+v, want %s of %s", a, status, id)
		}
	}
	want(send(first, "d-1"), "accepted", "d-1")
	want(send(first, "d-2"), "duplicate", "d-2")
	eventually(t, "the mark is written", func() bool {
		keys, err := rdb.Exists(t.Context(), fmt.Sprintf("hookonce:{%s}:replay:%x", name, replaySum(body, "ping"))).Result()
		return err == nil && keys == 1
	})
	want(send(second, "d-3"), "duplicate", "d-3")
	s.start("worker")
	s.awaitCompleted(1)
	want(send(second, "d-4"), "duplicate", "d-4")
	want(send(first, "d-1"), "duplicate", "d-1")
	if n := s.count(`SELECT count(*) FROM received_events`); n != 1 {
		t.Errorf("%d events, want 1", n)
	}
	for p, want := range map[*process]string{first: `layer="replay",source="` + name + `"} 1`, second: `layer="replay",source="` + name + `"} 2`} {
		if text := metrics(t, p); !bytes.Contains([]byte(text), []byte("hookonce_duplicates_total{"+want)) {
			t.Errorf("metrics have no %s", want)
		}
	}
}

func metrics(t *testing.T, p *process) string {
	t.Helper()
	res, err := http.Get(p.ops + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
