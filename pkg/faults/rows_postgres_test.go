package faults

import "time"

// postgresRows take Postgres away, or make it refuse.
func postgresRows() []*row {
	minute := 100 * time.Second
	return []*row{
		{number: "42", name: "Postgres kill -9", durable: true, bound: minute, fault: func(s *stage) {
			s.times(3, "kill -9 of Postgres", func() { s.killPostgres(time.Second) })
		}},
		{number: "43", name: "connections used up: max_connections", bound: minute, prepare: func(s *stage) { s.tenants(110) }, fault: func(s *stage) {
			s.times(3, "all connections taken", func() { s.takeConnections(1500 * time.Millisecond) })
		}},
		{number: "44", name: "sessions terminated", bound: minute, mix: sometimes(3, "main", typeSlow), fault: func(s *stage) {
			s.times(8, "pg_terminate_backend", s.terminate)
		}},
		{number: "45", name: "cut right after COMMIT was sent; its answer lost", short: modes, proxied: true, bound: minute, fault: func(s *stage) {
			for i := range 4 {
				s.loseReplies(s.pgWorker, "COMMIT", "commit\x00", 4, i%2 == 0)
				if s.mode == "inbox" {
					s.loseReplies(s.pgIngest, "the inbox's INSERT", `"event_id"`, 3, i%2 == 0)
				}
			}
		}},
		{number: "46", name: "Postgres SIGSTOP, 10 s once", bound: minute, fault: func(s *stage) {
			for _, d := range []time.Duration{2 * time.Second, 10 * time.Second, 2 * time.Second} {
				s.fire("SIGSTOP of Postgres", func() { pauseServer(s, s.stack.Postgres, d) })
				s.rest(300*time.Millisecond, time.Second)
			}
		}},
		{number: "47", name: "latency 300 ms ± 200 and resets to Postgres", proxied: true, bound: minute, fault: func(s *stage) {
			s.times(3, "latency", func() { s.both(func(p *proxy) { p.slow(1500*time.Millisecond, jitter) }, s.pgIngest, s.pgWorker) })
			s.times(4, "reset", func() { s.both((*proxy).cut, s.pgIngest, s.pgWorker) })
		}},
		{number: "49", name: "lock time-out: the table locked by hand", bound: minute, fault: func(s *stage) {
			s.times(4, "table locked", func() { s.locked(1500*time.Millisecond, nil) })
		}},
		{number: "50", name: "deadlocks and serialization failures", bound: minute, scripted: true, mix: contending,
			prepare: func(s *stage) {
				s.exec(`ALTER DATABASE hookonce SET deadlock_timeout = '50ms'`)
			},
			fault: func(s *stage) { time.Sleep(6 * time.Second) },
			expect: func(s *stage, _ *verdict) {
				n := s.count(`SELECT deadlocks FROM pg_stat_database WHERE datname = 'hookonce'`)
				s.fired.Store(int32(n))
				s.Logf("%d deadlocks, %d attempts at most", n, s.count(`SELECT max(attempt) FROM received_events`))
			}},
		{number: "54b", name: "commits held back while all tasks are lost, and copies come", proxied: true, mayLose: "queue", bound: minute, fault: func(s *stage) {
			s.times(4, "commits held back, then FLUSHALL and copies", s.recallDuringCommit)
		}, expect: func(s *stage, _ *verdict) {
			if n := s.pgWorker.losses(); n < leastFired {
				s.Errorf("held back=%d commits", n)
			}
		}},
		{number: "52", name: "read-only mode", bound: minute, fault: func(s *stage) {
			s.times(3, "read-only", func() { s.readOnly(1500 * time.Millisecond) })
		}},
	}
}

// contending events conflict a few dozen times. More of them would be in each
// other's way until some used their budget up: see the row's log.
func contending(i int) (source, typ string) {
	switch i % 12 {
	case 0, 1:
		return "main", typeDeadlock
	case 4, 8:
		return "main", typeSerial
	}
	return plain(i)
}

// mixedRows are all at once.
func mixedRows() []*row {
	return []*row{mixRow(20 * time.Second)}
}

func mixRow(d time.Duration) *row {
	return &row{
		number: "70", name: "random mix", proxied: true, durable: true, strict: true, workers: 3, bound: 4 * time.Minute,
		mix: always(typePlain, typePlain, typeSlow, typeFlaky), slow: true,
		fault: func(s *stage) {
			for end := time.Now().Add(d); time.Now().Before(end); {
				s.anything()
			}
		},
	}
}
