package program_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/hookonce/hookonce/pkg/devstack"
	"github.com/hookonce/hookonce/pkg/devstack/stacktest"
	"github.com/hookonce/hookonce/pkg/signature"
)

// withOwnID replaces the id of an event, which fixtures share, in the bytes.
func withOwnID(t *testing.T, body []byte, i int) []byte {
	t.Helper()
	var doc struct{ ID string }
	if err := json.Unmarshal(body, &doc); err != nil || doc.ID == "" {
		t.Fatalf("payload without id: %v", err)
	}
	id := fmt.Sprintf("evt_%06d", i)
	return bytes.Replace(body, []byte(`"`+doc.ID+`"`), []byte(`"`+id+`"`), 1)
}

func sign(t *testing.T, scheme signature.Scheme, secret string, body []byte) http.Header {
	t.Helper()
	v, err := scheme.Verifier([]string{secret})
	if err != nil {
		t.Fatal(err)
	}
	r, err := v.Sign(signature.Request{Body: body}, "", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return r.Header
}

// TestCopies delivers 50 copies of one event at once, to two ingests with two
// workers, and again when Redis does not remember it.
func TestCopies(t *testing.T) {
	t.Parallel()
	const source = "sources: {default: {verify: none, retention: %s}}\n"
	tests := []struct {
		name      string
		retention string
		between   func(*redis.Client) error // what happens between two rounds of copies
	}{
		{"remembered", "10m", nil},
		{"retention 0", "0s", nil},
		{"flushall", "10m", func(rdb *redis.Client) error { return rdb.FlushAll(context.Background()).Err() }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			stack := stacktest.Private(t, devstack.Options{Fast: true}) // it may be flushed
			s := newStage(t, stack.RedisURL, stack.DatabaseURL, fmt.Sprintf(source, tt.retention))
			ingests := []*process{s.start("ingest"), s.start("ingest")}
			workers := []*process{s.start("worker"), s.start("worker")}

			first := s.copies(ingests, 50)
			if tt.retention != "0s" && (first["accepted"] != 1 || first["duplicate"] != 49) {
				t.Errorf("answers %v, want 1 accepted and 49 duplicate", first)
			}
			s.awaitCompleted(1)
			if tt.between != nil {
				o, err := redis.ParseURL(stack.RedisURL)
				if err != nil {
					t.Fatal(err)
				}
				rdb := redis.NewClient(o)
				defer rdb.Close()
				if err := tt.between(rdb); err != nil {
					t.Fatal(err)
				}
			}
			second := s.copies(ingests, 50)
			if tt.between != nil && second["accepted"] == 0 {
				t.Errorf("answers %v after Redis forgot, want the copies accepted and caught later", second)
			}
			if total := first["accepted"] + first["duplicate"] + second["accepted"] + second["duplicate"]; total != 100 {
				t.Errorf("answers %v and %v, want 100 that are accepted or duplicate", first, second)
			}
			for _, w := range workers {
				w.stop(t) // with all that it has in hand
			}
			if n := s.count(`SELECT count(*) FROM payments`); n != 1 {
				t.Errorf("%d payments, want 1", n)
			}
		})
	}
}

// copies delivers one event n times at once, and counts the answers.
func (s *stage) copies(ingests []*process, n int) map[string]int {
	s.tb.Helper()
	var mu sync.Mutex
	got := map[string]int{}
	var wg sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		wg.Go(func() {
			<-start
			a, err := tryPost(ingests[i%len(ingests)].url+"/webhooks", http.Header{}, payment("evt_copies", 4200))
			mu.Lock()
			defer mu.Unlock()
			if err != nil || a.Code != 200 {
				s.tb.Errorf("answer %+v, %v", a, err)
			}
			got[a.Status]++
		})
	}
	close(start)
	wg.Wait()
	return got
}

// TestKilledWorker kills a worker whose handler has written and not committed.
// The other worker's sweeper finds the task that nobody runs.
func TestKilledWorker(t *testing.T) {
	t.Parallel()
	name := stacktest.Source(t)
	s := newStage(t, stacktest.Redis(t), stacktest.Postgres(t), fmt.Sprintf(`
sources:
  %s:
    verify: none
    id: {json: /event_id}
    type: {json: /event_type}
    timeout: 1s
    handlers: [{match: "*", handler: stall}]
`, name))
	ingest := s.start("ingest")
	workers := []*process{s.start("worker"), s.start("worker")}
	post(t, ingest.url+"/webhooks/"+name, http.Header{}, payment("evt_killed", 1))
	killOne(t, workers, "stalled")
	killed := time.Now()
	if n := s.count(`SELECT count(*) FROM effects`); n != 0 {
		t.Fatalf("%d effects of a killed attempt, want none", n)
	}
	s.awaitCompleted(1)
	t.Logf("completed %s after the kill", time.Since(killed).Round(time.Millisecond))
	if n := s.count(`SELECT count(*) FROM effects WHERE attempt = 2`); n != 1 || s.count(`SELECT count(*) FROM effects`) != 1 {
		t.Errorf("%d effects of attempt 2, want that one alone", n)
	}
	if n := s.count(`SELECT count(*) FROM event_attempts WHERE attempt = 1 AND kind = 'lost'`); n != 1 {
		t.Errorf("%d lost attempts, want the first noted", n)
	}
}

// killOne kills the first of the processes that says something.
func killOne(t *testing.T, processes []*process, message string) {
	t.Helper()
	deadline := time.After(patience)
	for {
		for _, p := range processes {
			select {
			case line, ok := <-p.lines:
				if !ok {
					t.Fatalf("process ended:\n%s", p.text())
				}
				if line.Msg == message {
					p.kill(t)
					return
				}
			case <-deadline:
				t.Fatalf("no process said %q", message)
			case <-time.After(10 * time.Millisecond): // look at the next one
			}
		}
	}
}

// TestHealth asks what operators ask.
func TestHealth(t *testing.T) {
	t.Parallel()
	stack := stacktest.Private(t, devstack.Options{Fast: true}) // it is stopped
	s := newStage(t, stack.RedisURL, stack.DatabaseURL, "sources: {default: {verify: none}}\n")
	ingest, worker := s.start("ingest"), s.start("worker")
	for _, p := range []*process{ingest, worker} {
		for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
			if code := get(t, p.ops+path); code != 200 {
				t.Errorf("%s%s = %d, want 200", p.ops, path, code)
			}
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/"} {
		if code := get(t, ingest.url+path); code != 404 {
			t.Errorf("%s on the public port = %d, want 404", path, code)
		}
	}
	if err := stack.Redis.Kill(); err != nil {
		t.Fatal(err)
	}
	if code := get(t, worker.ops+"/readyz"); code != 503 {
		t.Errorf("readyz of the worker without Redis = %d, want 503", code)
	}
	if code := get(t, ingest.ops+"/readyz"); code != 200 {
		t.Errorf("readyz of ingest without Redis = %d, want 200: Postgres holds events", code)
	}
	for i, want := range []string{"accepted", "duplicate"} {
		if a := post(t, ingest.url+"/webhooks", http.Header{}, payment("evt_1", 1)); a.Code != 200 || a.Status != want {
			t.Errorf("delivery %d without Redis = %+v, want it %s", i+1, a, want)
		}
	}
	if err := stack.Postgres.Stop(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "ingest is not ready without both", func() bool { return get(t, ingest.ops+"/readyz") == 503 })
	if a := post(t, ingest.url+"/webhooks", http.Header{}, payment("evt_2", 1)); a.Code != 503 || a.Status != "error" {
		t.Errorf("delivery without both = %+v, want 503", a)
	}
	if err := stack.Postgres.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := stack.Redis.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the event is accepted", func() bool {
		a, err := tryPost(ingest.url+"/webhooks", http.Header{}, payment("evt_2", 1))
		return err == nil && a.Code == 200
	})
	eventually(t, "both are completed", func() bool {
		var n int
		err := s.db.QueryRow(context.Background(), `SELECT count(*) FROM received_events WHERE status = 'completed'`).Scan(&n)
		return err == nil && n == 2
	})
}

func get(t *testing.T, url string) int {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	return resp.StatusCode
}
