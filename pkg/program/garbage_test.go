package program_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"testing"

	"github.com/hookonce/hookonce/pkg/program"
)

const garbageVariable = "HOOKONCE_TEST_GARBAGE"

// TestSpareCollections counts the collections of processes that make 1 GiB of
// garbage with little and with much in use.
func TestSpareCollections(t *testing.T) {
	if os.Getenv(garbageVariable) != "" {
		makeGarbage()
		return
	}
	t.Parallel()
	const little, much = "4", "200" // MiB in use
	collections := func(inUse, setting string) (n int) {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSpareCollections$")
		cmd.Env = append(os.Environ(), garbageVariable+"="+inUse, setting)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscanf(string(out), "collections %d", &n); err != nil {
			t.Fatalf("%q: %v", out, err)
		}
		return n
	}
	// With 4 MiB in use Go by itself collects each 4 MiB.
	if n := collections(little, "X="); n < 10 || n > 80 {
		t.Errorf("%d collections with little in use, want about 40", n)
	}
	// By itself, and as much: a limit that stays would collect all the time.
	if n := collections(much, "X="); n > 20 {
		t.Errorf("%d collections with much in use, want about 6", n)
	}
	for _, setting := range []string{"GOGC=100", "GOMEMLIMIT=1GiB"} {
		if n := collections(little, setting); n < 100 {
			t.Errorf("%d collections with %s, want as many as Go makes by itself", n, setting)
		}
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
	fmt.Println("collections", after.NumGC-before.NumGC)
}
