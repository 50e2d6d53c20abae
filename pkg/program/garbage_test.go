package program_test

import (
	"fmt"
	"math"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/hookonce/hookonce/pkg/program"
)

const garbageVariable = "HOOKONCE_TEST_GARBAGE"

// TestSpareCollections has processes make 1 GiB of garbage.
func TestSpareCollections(t *testing.T) {
	if os.Getenv(garbageVariable) != "" {
		makeGarbage()
		return
	}
	t.Parallel()
	run := func(inUse int, setting string) (collections, percent int, limit int64) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSpareCollections$")
		cmd.Env = []string{fmt.Sprintf("%s=%d", garbageVariable, inUse), setting}
		out, err := cmd.Output()
		if err == nil {
			_, err = fmt.Sscanf(string(out), "%d collections, GOGC=%d, GOMEMLIMIT=%d", &collections, &percent, &limit)
		}
		if err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return collections, percent, limit
	}
	// Go by itself would collect each 4 MiB.
	if n, percent, limit := run(4, "X="); n > 80 || percent != 400 || limit > 128<<20 {
		t.Errorf("with little in use %d collections, GOGC=%d, GOMEMLIMIT=%d; want about 40", n, percent, limit)
	}
	// A limit that stays where little is in use would have it collect all the time.
	if n, _, limit := run(200, "X="); n > 20 || limit < 400<<20 {
		t.Errorf("with much in use %d collections, GOMEMLIMIT=%d; want about 6", n, limit)
	}
	if _, percent, limit := run(4, "GOGC=150"); percent != 150 || limit != math.MaxInt64 {
		t.Errorf("with GOGC=150 it is %d, and the limit %d", percent, limit)
	}
	if _, percent, limit := run(4, "GOMEMLIMIT=1GiB"); percent != 100 || limit != 1<<30 {
		t.Errorf("with GOMEMLIMIT=1GiB it is %d, and GOGC=%d", limit, percent)
	}
}

var kept [][]byte

func makeGarbage() {
	program.SpareCollections(os.Environ())
	var inUse int
	fmt.Sscan(os.Getenv(garbageVariable), &inUse)
	for range inUse {
		kept = append(kept, make([]byte, 1<<20))
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range 1 << 30 / (16 << 10) {
		kept[0] = make([]byte, 16<<10)
	}
	runtime.ReadMemStats(&after)
	limit, percent := debug.SetMemoryLimit(-1), debug.SetGCPercent(-1)
	fmt.Printf("%d collections, GOGC=%d, GOMEMLIMIT=%d\n", after.NumGC-before.NumGC, percent, limit)
}
