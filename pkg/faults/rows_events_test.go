package faults

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// eventRows are about what is sent, and what handlers do.
func eventRows() []*row {
	return []*row{
		{
			number: "1", name: "none, 20 % duplicates", short: modes, n: 2000, rate: 220, calm: true,
			workers: 3, fault: func(*stage) {},
		},
		{number: "2", name: "100 identical deliveries at once", short: modes, scripted: true, script: bursts},
		{number: "4", name: "same id, other body, in each state", scripted: true, sources: []string{"poison"}, mayDie: []string{"poison"}, script: otherBodies, expect: bodiesKept},
		{number: "5", name: "two sources, the same ids", scripted: true, sources: []string{"twin"}, script: twins},
		{
			number: "15", name: "poison: error", sources: []string{"poison"}, mayDie: []string{"poison"}, mix: sometimes(10, "poison", typeError),
			scripted: true, fault: attempts(typeError, 20), expect: allPoisonDead,
		},
		{
			number: "16", name: "poison: panic, also in a goroutine of its own", sources: []string{"poison"}, mayDie: []string{"poison"}, scripted: true,
			mix:   first("poison", typePanic, typeGoPanic, typePanic, typePanic, typePanic),
			fault: attempts(typeGoPanic, 1), expect: allPoisonDead, bound: 3 * time.Minute,
		},
		{
			number: "17", name: "poison: os.Exit, out of memory", sources: []string{"poison"}, mayDie: []string{"poison"}, scripted: true,
			mix: first("poison", typeExit, typeMemory), fault: attempts(typeExit, 1), expect: allPoisonDead, bound: 3 * time.Minute,
		},
		{
			number: "18", name: "poison: does not watch its context", sources: []string{"poison"}, mayDie: []string{"poison"}, scripted: true,
			mix: sometimes(60, "poison", typeStubborn), fault: attempts(typeStubborn, 5), expect: allPoisonDead, bound: 2 * time.Minute,
		},
		{number: "19", name: "flaky handler, 50 %", mix: always(typeFlaky), scripted: true, fault: attempts(typeFlaky, 50), expect: func(s *stage, _ *verdict) {
			s.fired.Store(int32(s.count(countAttempts, typeFlaky)))
		}},
		{number: "65", name: "dead events replayed twice at once", sources: []string{"poison"}, mayDie: []string{"poison"}, scripted: true, mix: sometimes(8, "poison", typeRevive), fault: replays, expect: replayedOnce},
		{number: "66", name: "purge while redelivered", scripted: true, fault: purges, expect: purged},
		outsideRow(),
	}
}

// bursts sends groups of copies.
func bursts(s *stage) {
	for i := range 5 {
		e := s.sender.add("main", typePlain)
		s.fire("100 copies", func() {
			start := make(chan struct{})
			for range 100 {
				s.sender.wg.Go(func() {
					<-start
					s.sender.post(e, 0)
				})
			}
			close(start)
			if i%2 == 0 {
				s.sender.wg.Wait()
			}
		})
	}
}

// otherBodies sends a second body under the id of an event that waits, runs,
// failed, is completed or is dead.
func otherBodies(s *stage) {
	kinds := [][2]string{{"main", typePlain}, {"main", typeSlow}, {"main", typeFlaky}, {"poison", typeError}}
	for i := range 240 {
		kind := kinds[i%len(kinds)]
		e := s.sender.add(kind[0], kind[1])
		s.sender.other(e, kind[1])
		s.sender.wg.Go(func() {
			s.sender.post(e, 0)
			time.Sleep(time.Duration(i*37%4000) * time.Millisecond)
			s.fired.Add(1)
			s.sender.post(e, 1)
			s.sender.post(e, 0)
		})
		time.Sleep(15 * time.Millisecond)
	}
	s.sender.wg.Wait()
}

// bodiesKept wants the second body of each event kept beside it.
func bodiesKept(s *stage, _ *verdict) {
	n := s.count(`SELECT count(*) FROM payload_conflicts c JOIN received_events e USING (source, event_id)
		WHERE c.payload_sha256 <> e.payload_sha256`)
	if want := len(s.sender.events); n != want {
		s.Errorf("kept=%d other bodies, want %d", n, want)
	}
}

// twins sends each id to both sources.
func twins(s *stage) {
	for range 260 {
		e := s.sender.add("main", typePlain)
		twin := s.sender.addAs(key{"twin", e.id}, typePlain)
		s.sender.deliver(e)
		s.sender.deliver(twin)
		s.fired.Add(1)
		time.Sleep(20 * time.Millisecond)
	}
}

const countAttempts = `SELECT count(*) FROM event_attempts a JOIN received_events e USING (source, event_id) WHERE e.event_type = $1 AND a.kind <> 'unavailable'`

// attempts counts failed attempts as faults, and waits for the first n.
func attempts(typ string, n int) func(s *stage) {
	return func(s *stage) {
		deadline := time.Now().Add(2 * time.Minute)
		for s.count(countAttempts, typ) < n && time.Now().Before(deadline) {
			time.Sleep(100 * time.Millisecond)
		}
	}
}

// allPoisonDead wants each poison dead after all its attempts (again, if a late
// copy revived it), and nobody else.
func allPoisonDead(s *stage, v *verdict) {
	sent, dead := 0, s.count(`SELECT count(*) FROM received_events WHERE source = 'poison' AND status = 'dead' AND attempt - budget_from = 3`)
	for k := range s.sender.events {
		if k.source == "poison" {
			sent++
		}
	}
	if sent != dead || v.dead != dead || sent == 0 {
		s.Errorf("dead=%d of %d poison events, %d in all", dead, sent, v.dead)
	}
	s.fired.Store(int32(s.count(`SELECT count(*) FROM event_attempts WHERE source = 'poison'`)))
}

// replays has two people replay the dead at once, and again.
func replays(s *stage) {
	store, err := postgres.Open(context.Background(), s.stack.DatabaseURL, 4)
	if err != nil {
		s.Error(err)
		return
	}
	defer store.Close()
	client := queue.NewClient(s.rdb, nil)
	for range 4 {
		deadline := time.Now().Add(20 * time.Second)
		for s.count(`SELECT count(*) FROM received_events WHERE status = 'dead'`) < 10 && time.Now().Before(deadline) {
			time.Sleep(50 * time.Millisecond)
		}
		s.fire("two replays at once", func() { replayTwice(s, store, client) })
	}
}

func replayTwice(s *stage, store *postgres.Store, client *queue.Client) {
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			ctx := context.Background()
			events, err := store.Replay(ctx, webhook.DeadFilter{Source: "poison"}, 1000, "faults", "row 65")
			s.check(err)
			_, err = client.Send(ctx, events)
			s.check(err)
		})
	}
	wg.Wait()
}

// replayedOnce wants no event revived more than once. What died after the last
// replay stays dead.
func replayedOnce(s *stage, _ *verdict) {
	n := s.count(`SELECT count(*) FROM changes WHERE was = 'dead'`)
	distinct := s.count(`SELECT count(DISTINCT (source, event_id)) FROM changes WHERE was = 'dead'`)
	if n != distinct || n < 20 {
		s.Errorf("revived=%d of %d events, want each once, and 20 or more", n, distinct)
	}
	requeued := 0 // late copies, which revive too
	for _, d := range s.sender.log {
		if d.status == "requeued" {
			requeued++
		}
	}
	if kept := s.count(`SELECT coalesce(sum((details->>'Events')::int), 0) FROM audit_log`); kept > n || kept+requeued < n {
		s.Errorf("audited=%d, want %d, of which copies revived at most %d", kept, n, requeued)
	}
}

// purges makes completed events old, and sends them again at the same time. A
// worker purges when it starts, and then once a minute.
func purges(s *stage) {
	for range 4 {
		time.Sleep(1500 * time.Millisecond)
		s.fire("completed events are 100 days old", func() {
			_, err := s.db.Exec(context.Background(), `UPDATE received_events SET completed_at = completed_at - interval '100 days' WHERE status = 'completed'`)
			s.check(err)
			s.anyWorker().kill()
			s.sender.mu.Lock()
			old := s.sender.order[:len(s.sender.order)/2]
			s.sender.mu.Unlock()
			for i, e := range old {
				if i%4 == 0 {
					s.sender.wg.Go(func() { s.sender.post(e, 0) })
				}
			}
		})
	}
}

func purged(s *stage, _ *verdict) {
	if n := s.count(`SELECT count(*) FROM received_events WHERE payload IS NULL`); n < 50 {
		s.Errorf("purged=%d payloads, want 50 or more", n)
	}
}

// outsideRow has a world outside that does what it is told, and then answers
// too late.
func outsideRow() *row {
	r := &row{number: "67", name: "outside sink: late answer after it did it", mix: sometimes(5, "main", typeSink), scripted: true}
	var mu sync.Mutex
	keys := map[string]map[string]int{} // by event
	sink := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		mu.Lock()
		id, k := req.URL.Path[1:], req.Header.Get("Idempotency-Key")
		if keys[id] == nil {
			keys[id] = map[string]int{}
		}
		keys[id][k]++
		late := keys[id][k] < 3
		mu.Unlock()
		if late {
			time.Sleep(600 * time.Millisecond)
		}
	})
	r.fault = func(s *stage) { time.Sleep(4 * time.Second) }
	r.expect = func(s *stage, _ *verdict) {
		mu.Lock()
		defer mu.Unlock()
		calls := 0
		for id, of := range keys {
			if len(of) != 1 {
				s.Errorf("N9 keys=%d for %s, want one over all attempts", len(of), id)
			}
			for k, n := range of {
				calls += n
				if k != "main:"+id {
					s.Errorf("N9 key %q", k)
				}
			}
		}
		s.fired.Store(int32(calls - len(keys)))
		if n := s.count(`SELECT count(*) FROM effects e JOIN received_events r USING (source, event_id) WHERE event_type = 'sink'`); n != len(keys) {
			s.Errorf("N9 effects=%d, want %d", n, len(keys))
		}
	}
	r.prepare = func(s *stage) {
		server := httptest.NewServer(sink)
		r.sink = server.URL
		s.Cleanup(server.Close)
	}
	return r
}
