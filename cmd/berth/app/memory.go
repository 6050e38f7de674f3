package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
)

const (
	// heapRoom is how far the heap may grow, in bytes, before it is collected more often than leastGCPercent would:
	// the memory that the chart requests for a service. A collection occupies both processors of a small machine for
	// some tenths of a second, in which API server and etcd answer late.
	heapRoom = 512 << 20
	// leastGCPercent is the runtime's default, which applies to heaps of half of heapRoom and more.
	leastGCPercent = 100
	// mostGCPercent keeps the heap of a process with little live data small.
	mostGCPercent = 500
	// liveBytes is the metric of what the last collection found in use. The heap's size right after a collection
	// still includes garbage that is not swept yet, so a rule based on that size collects several times as often as
	// intended.
	liveBytes = "/gc/heap/live:bytes"
)

// tuneCollector lets heaps grow to heapRoom before they are collected, and adjusts again after every collection, which
// is detected by the cleanup of a marker object. So a service with 50 MiB of live data is collected at 300 MiB, and
// one with 1 GiB at 2 GiB. An operator's GOGC is respected; a memory limit (GOMEMLIMIT) applies in either case. A
// goroutine that polls would be late after a burst of allocation, which is when it matters.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	// The metric is 0 before the first collection, which gives the largest percentage.
	live := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(live)
	debug.SetGCPercent(gcPercent(live[0].Value.Uint64()))
	type marker struct{ _ *int } // a type with a pointer shares no memory block, so it is collected alone
	runtime.AddCleanup(&marker{}, func(struct{}) { tuneCollector() }, struct{}{})
}

// gcPercent returns the GOGC with which a heap with so many live bytes is collected when it reaches heapRoom, from
// leastGCPercent to mostGCPercent. GOGC p means: collect when the heap has grown by p percent of its live bytes.
func gcPercent(live uint64) int {
	percent := math.Floor((heapRoom/float64(max(live, 1)) - 1) * 100)
	return int(min(max(percent, leastGCPercent), mostGCPercent))
}
