package faults

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"
)

// TestFaults plays the rows of the fault table, and the controls.
func TestFaults(t *testing.T) {
	t.Parallel()
	how := os.Getenv("HOOKONCE_FAULTS")
	seeds, asked := 1, os.Getenv("HOOKONCE_FAULT_SEED")
	switch how {
	case "":
		asked = cmp.Or(asked, "1") // the same choices each time
	case "all":
	case "full":
		seeds = 3
	default:
		t.Fatalf("HOOKONCE_FAULTS=%q: want all or full", how)
	}
	table := &table{how: how}
	t.Run("rows", func(t *testing.T) {
		chosen := chooseSeeds(t, seeds, asked)
		table.seeds = chosen
		for i, c := range controls() {
			if how == "" && !c.short {
				continue
			}
			t.Run("control "+c.name, func(t *testing.T) {
				t.Parallel()
				table.addControl(c.name, controls()[i].play(t, chosen[0], how == ""))
			})
		}
		for _, seed := range chosen {
			for i, r := range allRows() {
				if r.refused != nil && how != "" {
					if why := r.refused(); why != "" {
						table.leaveOut(r, why)
						continue
					}
				}
				for _, mode := range playedModes(r, how) {
					t.Run(name(r, mode, seed), func(t *testing.T) {
						t.Parallel()
						table.add(play(t, allRows()[i], mode, seed, own(t), how == ""))
					})
				}
			}
		}
	})
	if how != "" {
		table.write(t)
	}
}

func playedModes(r *row, how string) []string {
	if how == "" {
		return r.short
	}
	if r.ownTimes && how != "full" {
		return nil
	}
	if r.modes != nil {
		return r.modes
	}
	return modes
}

func name(r *row, mode string, seed uint64) string {
	short, _, _ := strings.Cut(r.name, ":")
	if r.ownTimes {
		short += ", own times"
	}
	return strings.ReplaceAll(r.number, "/", "-") + " " + strings.ReplaceAll(short, "/", "-") + "/" + mode + "/" + strconv.FormatUint(seed, 10)
}

// TestSoak plays the random mix for as long as HOOKONCE_SOAK says.
func TestSoak(t *testing.T) {
	d, err := time.ParseDuration(cmp.Or(os.Getenv("HOOKONCE_SOAK"), "0s"))
	if err != nil {
		t.Fatal(err)
	}
	if d == 0 {
		t.Skip("HOOKONCE_SOAK is not set: it says for how long, such as 30m")
	}
	seed := chooseSeeds(t, 1, os.Getenv("HOOKONCE_FAULT_SEED"))[0]
	for _, mode := range modes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			play(t, mixRow(d), mode, seed, own(t), false)
		})
	}
}

// chooseSeeds returns the seeds that are asked for, or n by chance.
func chooseSeeds(t *testing.T, n int, asked string) []uint64 {
	t.Helper()
	var seeds []uint64
	if asked != "" {
		for text := range strings.SplitSeq(asked, ",") {
			seed, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatalf("HOOKONCE_FAULT_SEED: %v", err)
			}
			seeds = append(seeds, seed)
		}
	}
	for asked == "" && len(seeds) < n {
		var b [4]byte
		rand.Read(b[:])
		seeds = append(seeds, uint64(binary.LittleEndian.Uint32(b[:])))
	}
	t.Logf("HOOKONCE_FAULT_SEED=%s", strings.ReplaceAll(strings.Trim(sprint(seeds), "[]"), " ", ","))
	return seeds
}

// own is the test binary, which is the programs too.
func own(t *testing.T) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

// answerBudget is 0.8 s for the acknowledgement, and time for a machine that
// runs six rows at once. What the machine itself stalls comes on top: see pulse.
const answerBudget = 3 * time.Second

// patience is how long the provider sends again after the faults.
const patience = 3 * time.Minute

// leastFired is how often a fault must have struck for a row to count.
const leastFired = 3

// play runs a row and judges it. A short one sends less.
func play(t *testing.T, r *row, mode string, seed uint64, exe string, short bool) result {
	t.Helper()
	s, v, res := perform(t, r, mode, seed, exe, short)
	for _, text := range v.violations {
		if mode == r.mayLose && text.name == lost {
			continue
		}
		t.Errorf("%s\n%s", text, s.stories(v.allViolating[text.name]))
	}
	if r.expect != nil {
		r.expect(s, v)
		res.fired = int(s.fired.Load())
	}
	if res.fired < leastFired && !r.calm {
		t.Errorf("fired=%d, want %d or more: the nemesis is dead", res.fired, leastFired)
	}
	res.failed = t.Failed()
	t.Logf("seed %d; the nemesis did:\n%s", seed, strings.Join(s.events, "\n"))
	t.Log(res.line())
	if v.refused > 0 {
		t.Log("why ingest refused, for example:\n", s.ingest.reasons())
	}
	return res
}

// perform runs a row, waits until all is quiet, and checks.
func perform(t *testing.T, r *row, mode string, seed uint64, exe string, short bool) (*stage, *verdict, result) {
	t.Helper()
	n := cmp.Or(r.n, 500)
	if short { // the machine is busy with the tests of other packages, and not what this measures
		n, r.rate, r.slow = 120, 60, true
		r.env = append(r.env, "INGEST_ACK_TIMEOUT=10s")
	}
	s := newStage(t, r, mode, seed, exe)
	if r.script != nil {
		r.script(s)
		s.sender.wg.Wait()
	} else {
		done := make(chan struct{})
		go func() {
			defer close(done)
			s.strike()
		}()
		s.sender.load(cmp.Or(r.rate, 110), n, r.event, done)
		s.sender.wg.Wait()
	}
	s.healed = time.Now()
	if left := s.sender.again(patience); left > 0 {
		t.Errorf("not acknowledged=%d after the faults ended", left)
	}
	bound := cmp.Or(r.bound, 90*time.Second)
	open, tasks := s.quiet(bound)
	recovery := time.Since(s.healed)
	to := r.rules(mode)
	to.stall = s.pulse.worst
	v := judge(s.collect(to))
	if open != 0 || tasks != 0 {
		v.violations = append(v.violations, violation{notDrained, max(open, 0) + max(tasks, 0), key{"open", sprint(open, " rows, ", tasks, " tasks")}})
	}
	if r.naive == "" {
		v.violations = append(v.violations, s.traces()...)
	}
	if sent := s.sender.deliveries(); sent < n {
		t.Errorf("sent=%d, want %d or more", sent, n)
	}
	return s, &v, result{
		number: r.number, name: r.name, mode: mode, fired: int(s.fired.Load()), sent: s.sender.deliveries(),
		acked: v.acked, refused: v.refused, unknown: v.unknown, lost: v.lost, doubled: v.doubled,
		recovery: recovery, worst: v.worst, mayLose: mode == r.mayLose, strict: r.strictInbox(mode), ownTimes: r.ownTimes,
	}
}

// rules are what the checker must know of a row.
func (r *row) rules(mode string) rules {
	to := rules{maxRetry: map[string]int{"main": 12, "twin": 12, "poison": 2, "long": 12}, mayDie: map[string]bool{}, strict: r.strictInbox(mode)}
	if r.ownTimes {
		to.maxRetry["main"] = 24
	}
	for _, name := range r.mayDie {
		to.mayDie[name] = true
	}
	if !r.slow {
		to.budget = answerBudget
	}
	return to
}
