package faults

import (
	"context"
	"sync"
	"syscall"
	"time"

	"github.com/hookonce/hookonce/pkg/postgres"
	"github.com/hookonce/hookonce/pkg/queue"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// wholeRows are promises with a number in them, which the project is measured by.
func wholeRows() []*row {
	return []*row{
		{number: "71", name: "500 accepted, 400 or more unclaimed; Redis kill -9 and emptied; nothing is sent again", modes: []string{"inbox"}, strict: true, scripted: true,
			script: emptyThrice, expect: nothingAgain, bound: 2 * time.Minute},
		{number: "72", name: "20,000 events that end dead: listed, replayed, 100 or fewer on the dashboard", modes: []string{"queue"}, n: many, slow: true, scripted: true, workers: 2,
			sources: []string{"brief"}, mayDie: []string{"brief"}, script: func(s *stage) { s.flood(many, "brief", typeError) }, expect: allReplayable, bound: 5 * time.Minute},
		{number: "73", name: "Postgres stopped 20 s, longer than the whole retry schedule, with 20,000 queued", modes: []string{"queue"}, n: many, slow: true, scripted: true, durable: true,
			sources: []string{"brief"}, script: outlast, expect: noneDead, bound: 5 * time.Minute},
	}
}

const many = 20_000

// flood delivers n events as fast as ingest takes them, each once.
func (s *stage) flood(n int, source, typ string) {
	var wg sync.WaitGroup
	turn := make(chan *event)
	for range 32 {
		wg.Go(func() {
			for e := range turn {
				s.sender.post(e, 0)
			}
		})
	}
	for range n {
		turn <- s.sender.add(source, typ)
	}
	close(turn)
	wg.Wait()
}

// emptyThrice takes Redis' data away while no worker runs.
func emptyThrice(s *stage) {
	for range 3 {
		for _, w := range s.workers {
			w.signal(syscall.SIGSTOP)
		}
		s.flood(500, "main", typePlain)
		if n := s.count(`SELECT count(*) FROM received_events WHERE status = 'received'`); n < 400 {
			s.Errorf("unclaimed=%d, want 400 or more", n)
		}
		s.fire("Redis kill -9 and emptied", func() { s.killRedis(300*time.Millisecond, s.emptied) })
		for _, w := range s.workers {
			w.signal(syscall.SIGCONT)
		}
		s.quiet(2 * time.Minute)
	}
}

func nothingAgain(s *stage, v *verdict) {
	if sent := s.sender.deliveries() - v.refused; sent != 1500 || v.acked != 1500 {
		s.Errorf("sent and not refused=%d and acknowledged=%d, want 1500, each once", sent, v.acked)
	}
	if v.refused > 15 { // a 503 asks for another delivery, and is to be rare here
		s.Errorf("refused=%d of 1500, want 1 %% at most", v.refused)
	}
}

// allReplayable lists the dead, waits until the dashboard is trimmed, and has
// them all run and die again.
func allReplayable(s *stage, v *verdict) {
	ctx := context.Background()
	store, err := postgres.Open(ctx, s.stack.DatabaseURL, 4)
	if err != nil {
		s.Error(err)
		return
	}
	defer store.Close()
	listed := func() (groups, events int) {
		list, err := store.DeadGroups(ctx, webhook.DeadFilter{Source: "brief"})
		s.check(err)
		for _, g := range list {
			events += g.Events
		}
		return len(list), events
	}
	if groups, n := listed(); n != many || groups != 1 || v.dead != many {
		s.Errorf("dead=%d, listed=%d in %d groups, want %d in one", v.dead, n, groups, many)
	}
	archived := func() int { return int(s.rdb.ZCard(ctx, "asynq:{brief}:archived").Val()) }
	for deadline := time.Now().Add(30 * time.Second); archived() > 100 && time.Now().Before(deadline); {
		time.Sleep(100 * time.Millisecond)
	}
	if n := archived(); n > 100 || n == 0 {
		s.Errorf("archived=%d tasks, want 1 to 100", n)
	}
	client := queue.NewClient(s.rdb, nil)
	replayed, now := 0, time.Now() // what dies again does so later
	for {
		events, err := store.Replay(ctx, webhook.DeadFilter{Source: "brief", Until: now}, 1000, "faults", "row 72")
		s.check(err)
		if len(events) == 0 || err != nil {
			break
		}
		_, err = client.Send(ctx, events)
		s.check(err)
		replayed += len(events)
	}
	if open, tasks := s.quiet(5 * time.Minute); open != 0 || tasks != 0 {
		s.Errorf("open=%d events and %d tasks after the replay", open, tasks)
	}
	if _, n := listed(); replayed != many || n != many {
		s.Errorf("replayed=%d and dead again=%d, want %d", replayed, n, many)
	}
	s.fired.Store(int32(replayed))
}

// outlast has Postgres away for longer than all attempts of an event would take.
func outlast(s *stage) {
	s.fire("Postgres stopped", func() {
		s.check(s.stack.Postgres.Kill())
		until := time.Now().Add(20 * time.Second)
		s.flood(many, "brief", typeQuick)
		time.Sleep(time.Until(until))
		s.restart(s.stack.Postgres)
		s.db.Reset()
	})
}

func noneDead(s *stage, v *verdict) {
	if n := s.count(`SELECT count(*) FROM received_events WHERE status = 'completed'`); v.dead != 0 || n != many {
		s.Errorf("dead=%d, completed=%d, want 0 and %d", v.dead, n, many)
	}
	s.fired.Store(int32(v.acked)) // each was struck
}

// ownTimesRows are some of the others at the product's defaults.
func ownTimesRows() []*row {
	var rows []*row
	for _, number := range []string{"9", "11/12", "20", "21", "42", "70"} {
		r := find(number)
		r.ownTimes, r.short, r.bound = true, nil, 6*time.Minute
		switch number {
		case "11/12":
			r.fault = func(s *stage) { s.stopWorkers(3, 40*time.Second) }
		case "21":
			r.modes, r.strict, r.mayLose = []string{"inbox"}, true, ""
		case "70":
			r.mix = always(typePlain, typePlain, typeSlow) // a failure would wait for its back-off, up to hours
		}
		rows = append(rows, &r)
	}
	return rows
}
