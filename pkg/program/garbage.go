package program

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
)

// spareBytes is what may lie about before it is collected, though less is in
// use.
const spareBytes = 32 << 20

// SpareCollections has garbage collected less often while little memory is in
// use, as it mostly is: Go would collect twenty times a second under load, at a
// tenth of ingest's CPU time. It costs up to 32 MiB. From where more than those
// is in use it is as Go has it by itself, so that a process with large bodies in
// hand neither doubles again nor does nothing but collect.
//
// It does nothing if environ sets GOGC or GOMEMLIMIT.
func SpareCollections(environ []string) {
	for _, e := range environ {
		if strings.HasPrefix(e, "GOGC=") || strings.HasPrefix(e, "GOMEMLIMIT=") {
			return
		}
	}
	debug.SetGCPercent(400)
	renewLimit()
}

// renewLimit sets a limit for the time until the next collection, and has itself
// called after that. A limit that stays would not do: what is in use may be more
// than any that is low enough.
func renewLimit() {
	debug.SetMemoryLimit(nextLimit())
	runtime.AddCleanup(new(*int), func(int) { renewLimit() }, 0) // of what nobody holds
}

// nextLimit is how much Go may have of the system before it collects: what it
// needs now, and as much again as is in use, or spareBytes.
func nextLimit() int64 {
	has := []metrics.Sample{
		{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/memory/classes/heap/free:bytes"},
		{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/gc/heap/live:bytes"},
	}
	metrics.Read(has)
	bytes := func(i int) int64 { return int64(has[i].Value.Uint64()) }
	total, released, free, objects, live := bytes(0), bytes(1), bytes(2), bytes(3), bytes(4)
	garbage := max(objects-live, 0)
	return total - released - free - garbage + max(live, spareBytes)
}
