package faults

import (
	"fmt"
	"net"
	"strings"
	"syscall"
	"time"
)

// programRows kill and stop our own programs.
func programRows() []*row {
	return []*row{
		{number: "6", name: "ingest kill -9", slow: true, fault: func(s *stage) { s.times(6, "kill -9 of ingest", s.killIngest) }},
		{number: "7", name: "ingest SIGTERM under load", slow: true, fault: func(s *stage) {
			s.times(5, "SIGTERM of ingest", func() { s.ingest.signal(syscall.SIGTERM) })
		}},
		{number: "9", name: "worker kill -9: at the claim, in the handler, before done", short: modes, proxied: true, bound: 2 * time.Minute, fault: killSteps},
		{
			number: "10", name: "worker SIGTERM, handler longer than the shutdown", sources: []string{"long"}, mix: sometimes(50, "long", typeFirstLong),
			fault: func(s *stage) {
				for i := range 3 {
					s.fire("SIGTERM of a worker", func() { s.workers[i%len(s.workers)].end() })
				}
			},
			bound: 2 * time.Minute, expect: givenBack,
		},
		{
			number: "11/12", name: "worker SIGSTOP past lease, lock and asynq's lease, then CONT", short: modes, workers: 4, mix: sometimes(3, "main", typeSlow),
			fault: func(s *stage) { s.stopWorkers(3, 15*time.Second) }, bound: 2 * time.Minute, expect: takenOver,
		},
		{number: "14", name: "all workers killed in a loop", bound: 4 * time.Minute, fault: func(s *stage) {
			for range 5 {
				s.fire("kill -9 of all workers", func() {
					for _, w := range s.workers {
						w.kill()
					}
				})
				s.rest(1500*time.Millisecond, 3*time.Second)
			}
		}},
		{number: "54", name: "worker SIGSTOP within its transaction, until Postgres ends that", mix: always(typeSlow, typePlain, typePlain), workers: 3,
			fault: func(s *stage) { s.stopWorkers(3, 6*time.Second) }, bound: 2 * time.Minute},
		{number: "57", name: "Postgres' clock jumps ahead: all leases end, locks gone, each event has a second task", workers: 6,
			mix: always(typeSlow), rate: 18, fault: func(s *stage) { s.times(5, "all leases end", s.endLeases) }, expect: takenOver, bound: 2 * time.Minute},
		{number: "57b", name: "a worker's clock 5 min behind, then ahead, as its leases in Redis show it", workers: 3, mix: sometimes(3, "main", typeSlow), fault: func(s *stage) {
			for _, d := range []time.Duration{-5 * time.Minute, 5 * time.Minute, -5 * time.Minute} {
				s.fire("leases moved by "+d.String(), func() { s.moveLeases(d, 2*time.Second) })
				s.rest(300*time.Millisecond, 600*time.Millisecond)
			}
		}, bound: 2 * time.Minute},
		{number: "59", name: "four sweepers, one stalled, queue emptied", modes: []string{"inbox"}, strict: true, workers: 4, fault: func(s *stage) {
			for range 3 {
				s.fire("FLUSHALL while a worker is stopped", func() {
					go s.flush()
					s.anyWorker().pause(4 * time.Second)
				})
			}
		}, bound: 2 * time.Minute},
		{number: "60", name: "sweeper acts on an old snapshot: its look at the queue held back", proxied: true, mix: sometimes(12, "main", typeSlow), bound: 2 * time.Minute,
			fault: func(s *stage) { s.times(4, "a sweep's look held back", s.holdSweep) },
			expect: func(s *stage, _ *verdict) {
				if n := s.redisWorker.losses(); n < leastFired {
					s.Errorf("held back=%d looks", n)
				}
			}},
		{number: "61", name: "ingest with 60 file descriptors", limit: "ulimit -n 60", slow: true, scripted: true, rate: 200, fault: crowd(200)},
		{number: "62", name: "memory limits low (GOMEMLIMIT 20 MiB, one core)", env: []string{"GOMEMLIMIT=20MiB", "GOMAXPROCS=1"}, calm: true, fault: func(*stage) {}},
		{number: "69", name: "500 connections that send slowly", scripted: true, fault: crowd(500)},
	}
}

// killSteps kills at each step that can be aimed at from outside.
func killSteps(s *stage) {
	for range 2 {
		s.fire("kill -9 in the handler", func() { s.anyWorker().kill() })
		s.rest(200*time.Millisecond, 600*time.Millisecond)
		s.fire("kill -9 at the claim", s.killAtClaim)
		s.rest(200*time.Millisecond, 600*time.Millisecond)
		s.fire("kill -9 between commit and done", s.killBeforeDone)
		s.rest(200*time.Millisecond, 600*time.Millisecond)
	}
}

// takenOver wants that the fault did what it is for.
func takenOver(s *stage, v *verdict) {
	fences := 0
	for _, w := range s.workers {
		fences += w.fences()
	}
	s.Logf("%d attempts taken over, %d fenced", v.takenOver, fences)
	if v.takenOver == 0 {
		s.Error("taken over=0: no lease ran out")
	}
}

func givenBack(s *stage, _ *verdict) {
	if n := s.count(`SELECT count(*) FROM event_attempts WHERE kind = 'shutdown'`); n == 0 {
		s.Error("given back=0: no attempt outlasted the shutdown")
	}
}

// crowd opens connections that send a byte now and then.
func crowd(n int) func(s *stage) {
	return func(s *stage) {
		addr := strings.TrimPrefix(s.url, "http://")
		var open []net.Conn
		for range n {
			c, err := net.Dial("tcp", addr)
			if err != nil {
				continue
			}
			open = append(open, c)
			fmt.Fprint(c, "POST /webhooks/main HTTP/1.1\r\nHost: a\r\n")
		}
		for range 20 {
			s.fired.Add(1)
			for _, c := range open {
				fmt.Fprint(c, "X")
			}
			time.Sleep(200 * time.Millisecond)
		}
		for _, c := range open {
			c.Close()
		}
	}
}
