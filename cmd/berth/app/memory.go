package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapRoom is how far the heap may grow, in bytes, before it is collected at more than leastGCPercent's pace:
	// what the chart asks for a service. A collection takes both processors of a small machine for some tenths
	// of a second, in which API server and etcd answer late.
	heapRoom = 512 << 20
	// leastGCPercent is the runtime's default, which heaps of half of heapRoom and more keep to.
	leastGCPercent = 100
	// mostGCPercent keeps a process with little to remember small.
	mostGCPercent = 500
	// liveBytes is what the last collection found in use. The heap's size right after it still has garbage in
	// it that is not swept yet, so a rule that goes by that size collects several times as often as it means to.
	liveBytes = "/gc/heap/live:bytes"
)

// tuneCollector lets heaps grow to heapRoom, and looks again after every collection, which is when its marker is
// found. An operator's GOGC is left as it is; a memory limit (GOMEMLIMIT) holds in either case.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	live := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	type marker struct{ _ *int } // with a pointer it has its memory for itself, and is found by itself
	runtime.AddCleanup(&marker{}, func(struct{}) { tuneCollector() }, struct{}{})
}

// gcPercent is GOGC for a heap with so many bytes in use, at which it is collected when it reaches heapRoom.
func gcPercent(live uint64) int {
	percent := math.Floor((heapRoom/float64(max(live, 1)) - 1) * 100)
	return int(min(max(percent, leastGCPercent), mostGCPercent))
}
