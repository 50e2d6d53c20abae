// Package doctor judges what Redis and Postgres tell of themselves: what is
// wrong with them for our programs, and what to do about it. It asks nobody and
// changes nothing.
//
// It serves our own programs and promises nothing to others.
package doctor

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// A Level says how much a finding matters.
type Level string

// The levels. What can lose an event without a word, or keeps a program from
// its work, is an error.
const (
	OK      Level = "ok"
	Note    Level = "note"
	Warning Level = "warning"
	Error   Level = "error"
)

// A Finding is one thing that was looked at.
type Finding struct {
	Level   Level  `json:"level"`
	Subject string `json:"subject"`
	Text    string `json:"text"`
	Fix     string `json:"fix,omitempty"`     // what to do
	Refuses bool   `json:"refuses,omitempty"` // a program does not start with this
}

// String is a sentence for a log.
func (f Finding) String() string {
	if f.Fix == "" {
		return f.Subject + ": " + f.Text
	}
	return f.Subject + ": " + f.Text + ": " + f.Fix
}

// Matters reports whether a person must know.
func (f Finding) Matters() bool { return f.Level == Warning || f.Level == Error }

// Facts are what there is to judge.
type Facts struct {
	Redis    []Redis   // or each master of a cluster; empty if it was not asked
	Queues   []Queue   // what asynq holds
	Postgres *Postgres // nil if it was not asked
	Attempts []Attempts

	Inbox         bool  // events are held by Postgres first
	AllowEviction bool  // of REDIS_ALLOW_EVICTION
	Persistent    bool  // of REDIS_PERSISTENT
	Schema        int64 // number of the last migration that this build knows
}

// Check judges the facts.
func Check(f Facts) []Finding {
	var all []Finding
	for _, r := range f.Redis {
		all = append(all, r.check(f)...)
	}
	if len(f.Redis) > 0 {
		all = append(all, instances(f.Redis)...)
	}
	for _, q := range f.Queues {
		all = append(all, q.check()...)
	}
	for _, a := range f.Attempts {
		all = append(all, a.check()...)
	}
	if f.Postgres != nil {
		all = append(all, f.Postgres.check(f.Schema)...)
	}
	return all
}

// notLetIn is how Redis refuses a user, and how Postgres refuses one (class 28)
// or a database (3D000).
var notLetIn = regexp.MustCompile(`\b(WRONGPASS|NOAUTH|NOPERM)\b|SQLSTATE (28...|3D000)`)

// Away is the finding that a store cannot be asked.
func Away(subject string, err error) Finding {
	f := Finding{Level: Error, Subject: subject, Text: "cannot be asked: " + Line(err), Fix: "start it, or correct the address"}
	switch {
	case notLetIn.MatchString(f.Text):
		f.Fix = "it is there, and does not let us in: correct the user, the password or the name of the database"
	case strings.Contains(f.Text, "unsupported startup parameter"):
		f.Fix = "this is PgBouncer: let it pool sessions, and add statement_timeout, lock_timeout and the others to its ignore_startup_parameters; better, point DATABASE_URL at Postgres itself"
	}
	return f
}

// Line is an error on one line.
func Line(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

// maxSkew is what clocks may differ: leases and back-offs are times.
const maxSkew = time.Second

func clock(subject string, skew time.Duration) Finding {
	if skew.Abs() <= maxSkew {
		return Finding{Level: OK, Subject: subject, Text: "its clock is within 1 s of ours"}
	}
	way := "ahead of"
	if skew < 0 {
		way = "behind"
	}
	return Finding{
		Level: Warning, Subject: subject,
		Text: fmt.Sprintf("its clock is %s %s ours, so leases and back-offs end early or late", skew.Abs().Round(100*time.Millisecond), way),
		Fix:  "run NTP on both machines",
	}
}
