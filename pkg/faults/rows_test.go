package faults

import "time"

// A row is one line of the fault table.
type row struct {
	number string // in the fault matrix
	name   string
	modes  []string // both if nil
	short  []string // the modes in which it is part of every run of the tests

	sources []string // beside main
	workers int      // 2 if 0
	naive   string   // this program instead of ours
	durable bool     // Postgres waits for the disk
	disk    string   // which server is on a small disk
	// ownTimes are the product's: deadline 15 s, lease 20 s, a sweep each 5 s.
	ownTimes bool
	// refused says why this machine cannot play the row; nil or "" if it can.
	refused func() string
	proxied bool
	env     []string // of the programs
	limit   string   // of ingest, as a shell says it
	sink    string   // filled in: address of the outside world

	prepare func(s *stage) // before the programs start

	rate int // deliveries a second; 110 if 0
	n    int // deliveries at least; 500 if 0
	mix  func(i int) (source, typ string)
	// fault acts while events flow.
	fault func(s *stage)
	// script replaces load and fault.
	script func(s *stage)
	// scripted rows count what they did themselves: see the reason.
	scripted bool
	// calm rows have no fault that strikes.
	calm bool
	// expect checks what the invariants do not say.
	expect func(s *stage, v *verdict)

	mayLose string   // the mode in which what Redis alone held may be lost
	strict  bool     // inbox mode without the fallback to Redis, which has queue's guarantee
	mayDie  []string // sources of which events may end dead
	slow    bool     // answers have no budget: the fault is in ingest itself
	bound   time.Duration
}

// event says what the ith event is.
func (r *row) event(i int) (source, typ string) {
	if r.mix == nil {
		return plain(i)
	}
	return r.mix(i)
}

// strictInbox says that Postgres alone may hold what is acknowledged: while
// Redis stands in for it, what Redis loses is lost.
func (r *row) strictInbox(mode string) bool {
	return mode == "inbox" && (r.strict || r.mayLose == "queue")
}

// modes are both ways to acknowledge.
var modes = []string{"queue", "inbox"}

func plain(int) (string, string) { return "main", typePlain }

// sometimes mixes every nth event of another kind in.
func sometimes(n int, source, typ string) func(i int) (string, string) {
	return func(i int) (string, string) {
		if i%n == n/2 {
			return source, typ
		}
		return plain(i)
	}
}

// first mixes others in, spread over the first of the load.
func first(source string, types ...string) func(i int) (string, string) {
	return func(i int) (string, string) {
		if at := i / 20; i%20 == 10 && at < len(types) {
			return source, types[at]
		}
		return plain(i)
	}
}

// either sends to two sources in turn.
func either(i int) (source, typ string) { return []string{"main", "twin"}[i%2], typePlain }

func always(types ...string) func(i int) (string, string) {
	return func(i int) (string, string) { return "main", types[i%len(types)] }
}

// allRows is the table.
func allRows() []*row {
	var rows []*row
	for _, part := range [][]*row{
		wholeRows(), ownTimesRows(), // the longest first
		eventRows(), programRows(), redisRows(), postgresRows(), diskRows(), upgradeRows(), mixedRows(),
	} {
		rows = append(rows, part...)
	}
	return rows
}

// notRun are the rows of the matrix that this suite leaves out, and why.
var notRun = [][3]string{
	{"55", "power loss", "needs FUSE (lazyfs)"},
	{"56", "slow disk", "needs cgroups"},
	{"57", "clock of a worker ± 5 min", "Go reads the real clock past libfaketime, and a time namespace moves only the monotonic one: needs a VM. Row 57 does it to Postgres' clock, row 57b to what a worker's clock shows to others"},
}
