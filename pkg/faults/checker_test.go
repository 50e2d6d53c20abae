package faults

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// A record is what the database says of an event in the end.
type record struct {
	Source, EventID, Status string
	Attempt                 int
	Budget                  int // attempts that count
	Sum                     []byte
	Reason                  bool
}

// An effect is one that the handler committed.
type effect struct {
	Source, EventID string
	Attempt         int
	Sum             []byte
}

// A change is one of an event's status or attempt.
type change struct {
	Source, EventID, Was, Becomes string
	From, To                      int
	At                            time.Time
}

// evidence is all that the checker judges: the sender's history, and the database.
type evidence struct {
	events  map[key]*event
	log     []delivery
	records []record
	effects []effect
	changes []change

	rules
}

// rules are what a row expects beside the invariants.
type rules struct {
	budget   time.Duration                          // of an answer; 0 is none
	stall    func(from, to time.Time) time.Duration // of the machine; nil is none
	maxRetry map[string]int
	mayDie   map[string]bool // sources of which events may end dead
	strict   bool            // only Postgres may hold what is acknowledged
}

// A violation is one invariant that does not hold, with how often.
type violation struct {
	name    string
	n       int
	example key
}

func (v violation) String() string { return fmt.Sprintf("%s=%d (such as %s)", v.name, v.n, v.example) }

// A verdict is what the checker found.
type verdict struct {
	violations   []violation
	lost         int // acknowledged and without effect
	doubled      int // effects too many
	acked        int
	refused      int
	unknown      int
	dead         int
	worst        time.Duration
	takenOver    int
	allViolating map[string][]key
}

func (v *verdict) note(name string, k key) {
	v.allViolating[name] = append(v.allViolating[name], k)
	for i := range v.violations {
		if v.violations[i].name == name {
			v.violations[i].n++
			return
		}
	}
	v.violations = append(v.violations, violation{name, 1, k})
}

// The names of what can be violated.
const (
	lost        = "N1 lost"
	effectLost  = "N2 completed without effect, lost"
	doubled     = "N2 doubled"
	deadEffect  = "N2 effect of a dead event"
	tooEarly    = "N4 acknowledged before its row was there"
	ghost       = "N3 never sent"
	otherBody   = "N3 other body"
	fenceBroken = "N5 effect of another attempt"
	illegal     = "N6 illegal change"
	badCode     = "N7 code"
	tooLate     = "N7 late answers"
	notDrained  = "N8 not drained"
	overBudget  = "N12 attempts over the budget"
	noReason    = "N12 dead without reason"
	mustLive    = "N12 dead by the fault of others"
)

// judge checks every invariant.
func judge(e evidence) verdict {
	v := verdict{allViolating: map[string][]key{}}
	records := map[key]record{}
	for _, r := range e.records {
		k := key{r.Source, r.EventID}
		records[k] = r
		e.judgeRecord(&v, k, r)
	}
	effects := map[key]int{}
	for _, f := range e.effects {
		k := key{f.Source, f.EventID}
		effects[k]++
		e.judgeEffect(&v, k, f, records[k])
	}
	for k, ev := range e.events {
		if !ev.acked {
			continue
		}
		v.acked++
		if s := records[k].Status; s != "completed" && s != "dead" {
			v.lost++
			v.note(lost, k)
		}
	}
	for k, r := range records {
		switch n := effects[k]; {
		case r.Status == "completed" && n == 0:
			v.lost++
			v.note(effectLost, k)
		case n > 1:
			v.doubled += n - 1
			v.note(doubled, k)
		case r.Status == "dead" && n > 0:
			v.note(deadEffect, k)
		}
	}
	held := map[key]time.Time{}
	for _, c := range e.changes {
		if c.Was == "none" {
			held[key{c.Source, c.EventID}] = c.At
		}
		if c.Was == "processing" && c.Becomes == "processing" {
			v.takenOver++
		}
		if !c.legal() {
			v.note(illegal+" "+c.Was+" to "+c.Becomes, key{c.Source, c.EventID})
		}
	}
	e.judgeAnswers(&v, held)
	return v
}

func (e evidence) judgeRecord(v *verdict, k key, r record) {
	ev := e.events[k]
	switch {
	case ev == nil:
		v.note(ghost, k)
	case !ev.sums[[sha256.Size]byte(r.Sum)]:
		v.note(otherBody, k)
	}
	if limit, ok := e.maxRetry[r.Source]; ok && r.Budget > limit+1 {
		v.note(overBudget, k)
	}
	if r.Status == "dead" {
		v.dead++
		if !r.Reason {
			v.note(noReason, k)
		}
		if !e.mayDie[r.Source] {
			v.note(mustLive, k)
		}
	}
}

func (e evidence) judgeEffect(v *verdict, k key, f effect, r record) {
	if e.events[k] == nil {
		v.note(ghost, k)
		return
	}
	if !slices.Equal(f.Sum, r.Sum) {
		v.note(otherBody, k)
	}
	if f.Attempt != r.Attempt {
		v.note(fenceBroken, k)
	}
}

// legal says which changes the program may make.
func (c change) legal() bool {
	switch c.Was + " " + c.Becomes {
	case "none processing":
		return c.To == 1
	case "received processing", "failed processing", "processing processing", "dead processing":
		return c.To == c.From+1
	case "none received":
		return c.To == 0
	case "processing completed", "processing failed", "processing dead", "processing received", "dead received":
		return c.To == c.From
	}
	return false
}

// judgeAnswers compares the sender's times with Postgres', which are of the
// same machine.
func (e evidence) judgeAnswers(v *verdict, held map[key]time.Time) {
	for _, d := range e.log {
		switch d.code {
		case 0:
			v.unknown++
			continue
		case 200:
			if at, ok := held[d.key]; e.strict && (!ok || at.After(d.ended)) {
				v.note(tooEarly, d.key)
			}
		case 503:
			v.refused++
			if !d.hint {
				v.note("N7 503 without Retry-After", d.key)
			}
		default:
			v.note(fmt.Sprint(badCode, " ", d.code), d.key)
		}
		v.worst = max(v.worst, d.took)
		if e.budget > 0 && d.took > e.allowed(d) {
			v.note(tooLate, d.key)
		}
	}
}

// stallFactor is how many processes an answer waits for, each of which the
// machine may stall.
const stallFactor = 10

// allowed is how long the answer may take. A machine that stalls while others
// use it makes answers late that a program gave in time.
func (e evidence) allowed(d delivery) time.Duration {
	if e.stall == nil {
		return e.budget
	}
	return e.budget + stallFactor*e.stall(d.at.Add(-time.Second), d.at.Add(d.took))
}

func (v *verdict) text() string {
	lines := make([]string, len(v.violations))
	for i, one := range v.violations {
		lines[i] = one.String()
	}
	slices.Sort(lines)
	return strings.Join(lines, "; ")
}

const selectRecords = `
SELECT source, event_id, status, attempt, attempt - budget_from, payload_sha256, coalesce(last_error, '') <> '' AND coalesce(error_kind, '') <> ''
FROM received_events`

// collect reads the evidence.
func (s *stage) collect(r rules) evidence {
	s.Helper()
	e := evidence{events: s.sender.events, log: s.sender.log, rules: r}
	records := selectRecords
	if s.row.naive != "" {
		records = naiveRecords[s.row.naive]
	}
	var err error
	read := func(to func(rows pgx.Rows) error, sql string) {
		if err == nil {
			rows, _ := s.db.Query(context.Background(), sql)
			err = to(rows)
		}
	}
	read(func(rows pgx.Rows) (err error) {
		e.records, err = pgx.CollectRows(rows, pgx.RowToStructByPos[record])
		return err
	}, records)
	read(func(rows pgx.Rows) (err error) {
		e.effects, err = pgx.CollectRows(rows, pgx.RowToStructByPos[effect])
		return err
	}, `SELECT source, event_id, attempt, sha256 FROM effects`)
	read(func(rows pgx.Rows) (err error) {
		e.changes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[change])
		return err
	}, `SELECT source, event_id, was, becomes, from_attempt, to_attempt, at FROM changes`)
	if err != nil {
		s.Fatal(err)
	}
	return e
}
