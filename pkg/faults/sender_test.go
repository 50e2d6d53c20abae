package faults

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"time"
)

// A key names an event.
type key struct{ source, id string }

func (k key) String() string { return k.source + "/" + k.id }

// An event is what the provider sends, and how it went.
type event struct {
	key
	bodies [][]byte // more than one only where the row says so
	acked  bool
	sums   map[[sha256.Size]byte]bool // of the bodies that were sent
}

// A delivery is one line of the history.
type delivery struct {
	key
	at     time.Time
	took   time.Duration
	ended  time.Time // by the wall clock alone, which Postgres reads too: at + took differs if it was set meanwhile
	code   int       // 0: unknown
	status string    // what the answer says
	hint   bool      // the answer says when to come back
	err    string
}

func (d delivery) String() string {
	return fmt.Sprintf("%s %s: %d %s %s (%s, until %s)", d.at.Format("15:04:05.000"), d.key, d.code, d.status, d.err,
		d.took.Round(time.Millisecond), d.ended.Format("15:04:05.000000"))
}

// A sender is the provider. It never sends two different bodies under one id,
// unless told.
type sender struct {
	url    string // of ingest, up to the source
	client *http.Client

	mu     sync.Mutex
	rng    *rand.Rand
	events map[key]*event
	order  []*event
	log    []delivery
	made   int
	open   int // requests without an answer yet
	wg     sync.WaitGroup
}

func newSender(url string, rng *rand.Rand) *sender {
	return &sender{
		url:    url,
		rng:    rng,
		events: map[key]*event{},
		client: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{MaxIdleConnsPerHost: 100}},
	}
}

// add makes a new event. The body holds the id, so that no two are equal.
func (s *sender) add(source, typ string) *event {
	s.mu.Lock()
	s.made++
	id := fmt.Sprintf("e%05d-%08x", s.made, s.rng.Uint32())
	s.mu.Unlock()
	return s.addAs(key{source, id}, typ)
}

func (s *sender) addAs(k key, typ string) *event {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := &event{key: k, sums: map[[sha256.Size]byte]bool{}}
	e.bodies = [][]byte{s.body(k.id, typ)}
	s.events[k] = e
	s.order = append(s.order, e)
	return e
}

func (s *sender) body(id, typ string) []byte {
	pad := strings.Repeat("x", s.rng.IntN(1500))
	return fmt.Appendf(nil, `{"event_id":%q,"event_type":%q,"nonce":%d,"pad":%q}`, id, typ, s.rng.Uint64(), pad)
}

// other gives the event one more body.
func (s *sender) other(e *event, typ string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e.bodies = append(e.bodies, s.body(e.id, typ))
}

// post delivers one of the event's bodies and notes what came of it.
func (s *sender) post(e *event, which int) delivery {
	s.mu.Lock()
	body := e.bodies[which]
	e.sums[sha256.Sum256(body)] = true
	s.open++
	s.mu.Unlock()
	d := delivery{key: e.key, at: time.Now()}
	resp, err := s.client.Post(s.url+e.source, "application/json", bytes.NewReader(body))
	if err == nil {
		var a struct{ Status string }
		err = json.NewDecoder(resp.Body).Decode(&a)
		resp.Body.Close()
		d.code, d.status, d.hint = resp.StatusCode, a.Status, resp.Header.Get("Retry-After") != ""
	}
	if err != nil && d.code == 0 {
		d.err = err.Error()
	}
	d.took, d.ended = time.Since(d.at), time.Now().Round(0)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open--
	if d.code/100 == 2 { // even if the rest of the answer was lost
		e.acked = true
	}
	s.log = append(s.log, d)
	return d
}

// deliver posts without waiting for the answer; a fifth of all deliveries are
// copies, at once or late.
func (s *sender) deliver(e *event) {
	s.wg.Go(func() { s.post(e, 0) })
	s.mu.Lock()
	dice, late := s.rng.Float64(), time.Duration(s.rng.IntN(3000))*time.Millisecond
	s.mu.Unlock()
	switch {
	case dice < 0.125:
		s.wg.Go(func() { s.post(e, 0) })
	case dice < 0.25:
		s.wg.Go(func() {
			time.Sleep(late)
			s.post(e, 0)
		})
	}
}

// load delivers new events at a rate, of the types that the mix says, until
// done is closed and at least n deliveries were made.
func (s *sender) load(rate, n int, mix func(i int) (source, typ string), done <-chan struct{}) {
	tick := time.NewTicker(time.Second / time.Duration(rate))
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			if s.deliveries() >= n {
				return
			}
		default:
		}
		s.deliver(s.add(mix(i)))
		<-tick.C
	}
}

func (s *sender) deliveries() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.log)
}

func (s *sender) waiting() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.open
}

func (s *sender) acked() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for _, e := range s.order {
		if e.acked {
			n++
		}
	}
	return n
}

// again delivers what was refused or has an unknown outcome, as providers do,
// until all is acknowledged or patience ends.
func (s *sender) again(patience time.Duration) (left int) {
	deadline := time.Now().Add(patience)
	for {
		s.wg.Wait()
		var open []*event
		for _, e := range s.order {
			if !e.acked {
				open = append(open, e)
			}
		}
		if len(open) == 0 || time.Now().After(deadline) {
			return len(open)
		}
		for i, e := range open {
			s.wg.Go(func() { s.post(e, 0) })
			if i%15 == 14 {
				time.Sleep(200 * time.Millisecond)
			}
		}
		s.wg.Wait()
		time.Sleep(300 * time.Millisecond)
	}
}

// history is all that is known of one event's deliveries.
func (s *sender) history(k key) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var b strings.Builder
	for _, d := range s.log {
		if d.key == k {
			fmt.Fprintln(&b, "\t", d)
		}
	}
	return b.String()
}
