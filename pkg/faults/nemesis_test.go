package faults

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"syscall"
	"time"
)

// enough is how many events must be in flight for a fault to count.
const enough = 20

// strikeWithin bounds how long a row goes on for its faults to count. A machine
// that others use may take long; the rule stays the same.
const strikeWithin = 3 * time.Minute

// fire injects one fault, once enough events are in flight: else it does not
// count. If the workers are faster than the load, a few events more see to it.
func (s *stage) fire(what string, f func()) {
	deadline := time.Now().Add(30 * time.Second)
	n := s.inFlight()
	for i := 0; !s.row.scripted && n < enough && time.Now().Before(deadline); i++ {
		if i%10 == 0 {
			for j := range 2 * enough {
				s.sender.deliver(s.sender.add(s.row.event(j)))
			}
		}
		time.Sleep(20 * time.Millisecond)
		n = s.inFlight()
	}
	s.events = append(s.events, fmt.Sprintf("%6.2fs %s with %d in flight", time.Since(s.began).Seconds(), what, n))
	if s.row.scripted || n >= enough {
		s.fired.Add(1)
	}
	f()
}

// rest waits between two faults: as long as the dice say.
func (s *stage) rest(least, most time.Duration) {
	time.Sleep(least + time.Duration(s.dice().Int64N(int64(most-least)+1)))
}

// dice are the sender's, which locks.
func (s *stage) dice() *rand.Rand {
	s.sender.mu.Lock()
	defer s.sender.mu.Unlock()
	return rand.New(rand.NewPCG(s.rng.Uint64(), s.rng.Uint64()))
}

// times fires a fault n times with a pause after each.
func (s *stage) times(n int, what string, f func()) {
	for range n {
		s.fire(what, f)
		s.rest(300*time.Millisecond, 1200*time.Millisecond)
	}
}

// strike lets the row's fault happen, and again if too little of it counted.
func (s *stage) strike() {
	s.row.fault(s)
	for end := time.Now().Add(strikeWithin); !s.row.calm && !s.row.scripted && s.fired.Load() < leastFired && time.Now().Before(end); {
		s.row.fault(s)
	}
}

// jitter is 300 ms ± 200.
func jitter() time.Duration { return 100*time.Millisecond + rand.N(400*time.Millisecond) }

func (s *stage) both(f func(p *proxy), ps ...*proxy) {
	var wg sync.WaitGroup
	for _, p := range ps {
		wg.Go(func() { f(p) })
	}
	wg.Wait()
}

// loseReplies arms a proxy, waits until it fired, and counts.
func (s *stage) loseReplies(p *proxy, what, word string, n int, sharp bool) {
	s.fire("lose the answer to "+what, func() {
		before := p.losses()
		p.lose(word, n, sharp)
		deadline := time.Now().Add(30 * time.Second)
		for p.losses() < before+n && time.Now().Before(deadline) {
			time.Sleep(10 * time.Millisecond)
		}
		p.lose("", 0, false)
		if lost := p.losses() - before; lost == 0 {
			s.Errorf("no answer to %s was lost: nothing matched %q", what, word)
		}
	})
}

// A mishap is a fault of the mix.
type mishap struct {
	name   string
	happen func()
}

// anything is one fault of the mix.
func (s *stage) anything() {
	d := time.Duration(500+s.dice().IntN(1500)) * time.Millisecond
	all := []mishap{
		{"kill -9 of ingest", s.killIngest},
		{"kill -9 of a worker", func() { s.anyWorker().kill() }},
		{"kill -9 of a worker at the claim", s.killAtClaim},
		{"kill -9 of a worker before done", s.killBeforeDone},
		{"SIGTERM of a worker", func() { s.anyWorker().signal(syscall.SIGTERM) }},
		{"SIGSTOP of a worker", func() { s.anyWorker().pause(4 * d) }},
		{"kill -9 of Redis", func() { s.killRedis(d, nil) }},
		{"SIGSTOP of Redis", func() { pauseServer(s, s.stack.Redis, d) }},
		{"Redis cut off", func() { s.both(func(p *proxy) { p.away(d) }, s.redisIngest, s.redisWorker) }},
		{"Postgres cut off", func() { s.both(func(p *proxy) { p.away(d) }, s.pgIngest, s.pgWorker) }},
		{"kill -9 of Postgres", func() { s.killPostgres(d) }},
		{"SIGSTOP of Postgres", func() { pauseServer(s, s.stack.Postgres, d) }},
		{"sessions terminated", s.terminate},
		{"locks broken", s.breakLocks},
		{"leases ended", s.endLeases},
		{"table locked", func() { s.locked(d, nil) }},
		{"Redis full", func() { s.fill(d) }},
		{"read-only", func() { s.readOnly(d) }},
		{"latency", func() {
			s.both(func(p *proxy) { p.slow(d, jitter) }, s.redisIngest, s.redisWorker, s.pgIngest, s.pgWorker)
		}},
	}
	if s.mode == "inbox" { // else what Redis held alone is lost
		all = append(all, mishap{"FLUSHALL", s.flush})
	}
	one := all[s.dice().IntN(len(all))]
	s.fire(one.name, one.happen)
	s.rest(200*time.Millisecond, 1500*time.Millisecond)
}
