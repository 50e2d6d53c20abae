package faults

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// upgradeRows replace the programs, one after the other.
func upgradeRows() []*row {
	return []*row{{
		number: "64", name: "rolling upgrade: migrate up, then old and next build together, and one step back",
		slow: true, bound: 100 * time.Second, prepare: buildNext, fault: upgrade, expect: upgraded,
	}}
}

// nextMigration is what a next build may bring: migrations only expand.
const nextMigration = `-- +goose Up
ALTER TABLE received_events ADD COLUMN note text, ADD COLUMN weight integer NOT NULL DEFAULT 1;
CREATE INDEX received_events_note ON received_events (note, received_at) WHERE note IS NOT NULL;
-- +goose Down
ALTER TABLE received_events DROP COLUMN note, DROP COLUMN weight;
`

// buildNext builds this program with one migration more, without which it does
// not start.
func buildNext(s *stage) {
	file := filepath.Join(s.TempDir(), "next.sql")
	if err := os.WriteFile(file, []byte(nextMigration), 0o600); err != nil {
		s.Fatal(err)
	}
	s.next = build(s, map[string]string{filepath.Join(root(s), "migrations", "0099_next.sql"): file})
}

func upgrade(s *stage) {
	s.fire("migrate up", func() {
		cmd := exec.Command(s.next)
		cmd.Env = []string{programVariable + "=migrate", "DATABASE_URL=" + s.stack.DatabaseURL}
		stdin, err := cmd.StdinPipe() // it ends with us
		s.check(err)
		defer stdin.Close()
		if out, err := cmd.CombinedOutput(); err != nil {
			s.Errorf("migrate up: %v: %s", err, out)
		}
	})
	old := s.ingest.exe[0]
	for _, step := range []struct {
		slot *slot
		exe  string
	}{{s.workers[0], s.next}, {s.ingest, s.next}, {s.workers[0], old}, {s.workers[1], s.next}} {
		s.fire("SIGTERM of "+step.slot.name+"; then starts "+filepath.Base(step.exe), func() { s.replace(step.slot, step.exe) })
		s.rest(time.Second, 2*time.Second)
	}
}

// replace ends a program as an orchestrator does, and has another build follow.
func (s *stage) replace(p *slot, exe string) {
	p.mu.Lock()
	p.exe = append([]string{exe}, p.exe[1:]...)
	before := p.starts
	p.mu.Unlock()
	p.signal(syscall.SIGTERM)
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		p.mu.Lock()
		starts, current := p.starts, p.current
		p.mu.Unlock()
		if starts == before {
			continue
		}
		select {
		case <-current.ready:
			return
		case <-current.gone:
			s.Errorf("%s of the other build ended:\n%s", p.name, p.log())
			return
		case <-time.After(time.Second):
		}
	}
	s.Errorf("%s of the other build does not start:\n%s", p.name, p.log())
}

func upgraded(s *stage, _ *verdict) {
	if n := s.count(`SELECT count(*) FROM received_events WHERE weight = 1`); n < 500/2 {
		s.Error(fmt.Errorf("rows of the next schema=%d", n))
	}
}
