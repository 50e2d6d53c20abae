package sweeper_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hookonce/hookonce/pkg/source"
	"github.com/hookonce/hookonce/pkg/sweeper"
	"github.com/hookonce/hookonce/pkg/webhook"
)

// busyWorld has something to do for each step.
func busyWorld() *world {
	w := newWorld()
	w.mark = ""
	w.waiting = 3
	w.stuck = tasks(2)
	w.archived = tasks(101)
	w.dead = map[string]bool{"e0": true}
	w.overdue = make([]webhook.Event, 5)
	w.missing = 4
	w.purged = [2]int{6, 7}
	w.strays = map[string]int{"gone": 8}
	return w
}

func TestSweep(t *testing.T) {
	t.Parallel()
	r := newRig(busyWorld())
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := sweeper.Report{Overdue: 5, Sent: 4, Unstuck: 2, Recalled: 3, Trimmed: 1, Purged: 13, Strays: map[string]int{"gone": 8}}
	if got := r.sum(); !reflect.DeepEqual(got, want) {
		t.Errorf("reports add up to %+v, want %+v", got, want)
	}
	for _, call := range []string{"PurgePayloads shop 24h0m0s 1000", "PurgeDetails shop 48h0m0s 1000", "Archived 100", "Overdue shop", "Strays shop"} {
		if !slices.Contains(r.calls, call) {
			t.Errorf("calls are %q, without %q", r.calls, call)
		}
	}
}

// TestSweepGoesOn lets one call fail: all steps but its own are as if it had not.
func TestSweepGoesOn(t *testing.T) {
	t.Parallel()
	steps := [][]string{
		{"Epoch", "KnownEpoch", "Recall", "SetEpoch"},
		{"Stuck", "Leased", "Unstick"},
		{"Archived", "Dead", "Discard"},
		{"PurgePayloads", "PurgeDetails"},
		{"Overdue", "Send"},
		{"Strays"},
	}
	for _, step := range steps {
		for i, fails := range step {
			t.Run(fails, func(t *testing.T) {
				t.Parallel()
				w := busyWorld()
				w.fails[fails] = true
				r := newRig(w)
				if err := r.Sweep(t.Context()); !errors.Is(err, errBoom) || !strings.Contains(err.Error(), fails) {
					t.Errorf("Sweep = %v, want that %s failed", err, fails)
				}
				called := w.called()
				for _, other := range steps {
					for j, call := range other {
						want := !slices.Equal(other, step) || j <= i
						if fails == "Epoch" && other[0] == "Overdue" {
							want = false // nothing is put off for a queue that does not answer
						}
						if slices.Contains(called, call) != want {
							t.Errorf("%s was called: %v, want %v", call, !want, want)
						}
					}
				}
				if gave := slices.Contains(w.calls, "Hasten 5"); gave != (fails == "Send") {
					t.Errorf("gave back what was overdue: %v", gave)
				}
				sum := r.sum()
				if fails == "Discard" && sum.Trimmed != 0 || fails == "Unstick" && sum.Unstuck != 0 || fails == "Recall" && sum.Recalled != 0 {
					t.Errorf("reports %+v of what failed", sum)
				}
			})
		}
	}
	t.Run("all", func(t *testing.T) {
		t.Parallel()
		w := busyWorld()
		for _, step := range steps {
			w.fails[step[0]] = true
		}
		if err := newRig(w).Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "Epoch") {
			t.Errorf("Sweep = %v, want the first failure", err)
		}
		if got := strings.Join(w.called(), " "); got != "Epoch Stuck Archived PurgePayloads Strays" {
			t.Errorf("called %s, want the first call of each step", got)
		}
	})
}

// TestSweepSources goes on with the next source where one fails.
func TestSweepSources(t *testing.T) {
	t.Parallel()
	w := busyWorld()
	w.fails["Stuck"] = true
	r := newRig(w)
	r.Sources = []source.Source{{Name: "a"}, {Name: "b"}}
	r.Known = []string{"a", "b", "another worker's"}
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("no error")
	}
	for _, call := range []string{"PurgePayloads a 0s 1000", "PurgePayloads b 0s 1000", "Overdue a,b", "Strays a,b,another worker's"} {
		if !slices.Contains(r.calls, call) {
			t.Errorf("calls are %q, without %q", r.calls, call)
		}
	}
}

func TestUnstick(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.stuck = append(tasks(4), webhook.TaskRef{TaskID: "unknown"})
	w.leased = map[string]bool{"e1": true}
	w.free = map[string]bool{"t2": true}
	r := newRig(w)
	if err := r.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(w.unstuck, " "); got != "t0 t3 unknown" {
		t.Errorf("unstuck %q, want all but the one that is worked on and the one that moved on", got)
	}
	if got := r.sum().Unstuck; got != 3 {
		t.Errorf("reports %d, want 3", got)
	}
}

func TestTrim(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		archived int
		dead     []string
		want     string
	}{
		{"few", 100, []string{"e0"}, ""},
		{"beyond 100", 103, []string{"e0", "e1", "e2", "e3"}, "t0 t1 t2"},
		{"not dead", 103, []string{"e1"}, "t1"},
		{"none dead", 103, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.archived, w.dead = tasks(tt.archived), map[string]bool{}
			for _, id := range tt.dead {
				w.dead[id] = true
			}
			r := newRig(w)
			if err := r.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(w.discarded, " "); got != tt.want || r.sum().Trimmed != len(w.discarded) {
				t.Errorf("discarded %q and reported %d, want %q", got, r.sum().Trimmed, tt.want)
			}
		})
	}
}

// TestSendOverdue takes batch after batch, as long as they are full and there
// is room.
func TestSendOverdue(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		overdue int
		rooms   int
		fails   string
		want    string
	}{
		{"none", 0, -1, "", "Overdue"},
		{"few", 3, -1, "", "Overdue Send"},
		{"a full batch", 1000, -1, "", "Overdue Send Overdue"},
		{"three batches", 2500, -1, "", "Overdue Send Overdue Send Overdue Send"},
		{"no room", 2500, 0, "", ""},
		{"room for two", 5000, 2, "", "Overdue Send Overdue Send"},
		{"not sent", 5000, -1, "Send", "Overdue Send"},
		{"not taken", 5000, -1, "Overdue", "Overdue"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.overdue, w.rooms = make([]webhook.Event, tt.overdue), tt.rooms
			w.fails[tt.fails] = true
			r := newRig(w)
			if err := r.Sweep(t.Context()); (err != nil) != (tt.fails != "") {
				t.Errorf("Sweep = %v", err)
			}
			var got []string
			for _, call := range w.called() {
				if call == "Overdue" || call == "Send" {
					got = append(got, call)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("called %q, want %s", got, tt.want)
			}
		})
	}
}

// TestEpoch looks at when events are recalled. Whatever was, the marks agree
// afterwards, and the next sweep recalls nothing.
func TestEpoch(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name             string
		known, mark, run string
		recalled         bool
	}{
		{"first start", "", "", "r", true},
		{"whole", "m@r", "m", "r", false},
		{"mark lost", "m@r", "", "r", true},
		{"mark of another time", "m@r", "l", "r", true},
		{"Postgres restored", "l@r", "m", "r", true},
		{"Postgres new", "", "m", "r", true},
		{"other run", "m@r", "m", "r2", true},
		{"a cluster, which has no run", "m@", "m", "", false},
		{"no mark and no run", "@", "", "", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.known, w.mark, w.run, w.waiting = tt.known, tt.mark, tt.run, 5
			r := newRig(w)
			if err := r.Sweep(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.sum().Recalled == 5; got != tt.recalled || slices.Contains(w.called(), "Recall") != tt.recalled {
				t.Errorf("recalled: %v, want %v", got, tt.recalled)
			}
			if w.mark == "" || w.known != w.mark+"@"+w.run {
				t.Errorf("marks are %q at run %q and %q, want them to agree", w.mark, w.run, w.known)
			}
			w.calls = nil
			if err := r.Sweep(t.Context()); err != nil || slices.Contains(w.called(), "Recall") {
				t.Errorf("second Sweep = %v, called %q, want no recall", err, w.called())
			}
		})
	}
}

// TestEpochInterrupted stops between the two marks: the next sweep recalls
// once more, since nobody knows what was sent.
func TestEpochInterrupted(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.mark, w.waiting, w.fails["SetEpoch"] = "", 5, true
	r := newRig(w)
	if err := r.Sweep(t.Context()); err == nil {
		t.Error("no error")
	}
	w.fails = map[string]bool{}
	if err := r.Sweep(t.Context()); err != nil || r.sum().Recalled != 10 || w.known != w.mark+"@r" {
		t.Errorf("Sweep = %v, recalled %d, marks %q and %q", err, r.sum().Recalled, w.mark, w.known)
	}
}

// TestEpochOfTwo lets workers sweep at once. After some rounds the marks agree,
// whoever was first with which.
func TestEpochOfTwo(t *testing.T) {
	t.Parallel()
	w := newWorld()
	w.mark, w.waiting = "", 5
	var rigs []*rig
	for range 4 {
		rigs = append(rigs, newRig(w))
	}
	for round := 0; ; round++ {
		var wg sync.WaitGroup
		for _, r := range rigs {
			wg.Go(func() {
				if err := r.Sweep(context.Background()); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		if w.known == w.mark+"@r" {
			break
		}
		if round == 10 {
			t.Fatalf("marks are %q and %q after %d rounds", w.mark, w.known, round)
		}
	}
	w.calls = nil
	for _, r := range rigs {
		if err := r.Sweep(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if slices.Contains(w.called(), "Recall") {
		t.Error("recalled though the marks agree")
	}
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.fails["Stuck"] = true // is said, and tried again
		r := newRig(w)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(66 * time.Second)
		end()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		n := map[string]int{}
		for _, call := range r.calls {
			name, _, _ := strings.Cut(call, " ")
			n[name]++
		}
		if n["Overdue"] != 14 || n["Strays"] != 2 { // at once, and each 5 s; at once, and each minute
			t.Errorf("swept %d times in 66 s and counted strays %d times, want 14 and 2", n["Overdue"], n["Strays"])
		}
	})
}

// TestRunSoon looks again each second while a dead worker's task waits for its
// lease to end, so that it runs as soon as that has ended.
func TestRunSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		w.stuck = tasks(1)
		w.leased = map[string]bool{"e0": true}
		r := newRig(w)
		ctx, end := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- r.Run(ctx) }()
		time.Sleep(3*time.Second + time.Millisecond)
		end()
		if err := <-done; err != nil {
			t.Errorf("Run = %v", err)
		}
		n := 0
		for _, call := range r.calls {
			if strings.HasPrefix(call, "Stuck") {
				n++
			}
		}
		if n != 4 {
			t.Errorf("looked %d times in 3 s, want 4", n)
		}
	})
}

func ids(n int) []string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprint("e-", i))
	}
	return list
}
