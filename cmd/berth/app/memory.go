package app

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// heapRoom is how far the heap of a busy process may grow, in bytes, before it is collected more often than
	// leastGCPercent would: three eighths of what the chart requests for a service. A collection occupies both
	// processors of a small machine for some tenths of a second, in which API server and etcd answer late.
	heapRoom = 192 << 20
	// leastGCPercent is the runtime's default, which applies to heaps of half of heapRoom and more.
	leastGCPercent = 100
	// mostGCPercent keeps the heap of a busy process with little live data small.
	mostGCPercent = 300
	// idleGCPercent applies to an idle process: one that needed at least idleCycle from one collection to the next. There,
	// collecting more often costs little, and garbage that is kept is memory that other processes could use.
	idleGCPercent = 40
	idleCycle     = 5 * time.Second
	// liveBytes is the metric of what the last collection found in use. The heap's size right after a collection
	// still includes garbage that is not swept yet, so a rule based on that size collects several times as often as
	// intended.
	liveBytes = "/gc/heap/live:bytes"
)

// tuneCollector sets the collector's pace for a busy process, and sets it again after every collection by the time
// that the cycle took. An operator's GOGC is respected; a memory limit (GOMEMLIMIT) applies in either case.
func tuneCollector() {
	if os.Getenv("GOGC") != "" {
		return
	}
	beginCycle(0)
}

// beginCycle sets the pace of the cycle that begins. The cleanup of a marker object detects the end of the cycle. If
// the cycle of a busy process does not end within idleCycle, the process has become idle: it collects once, gives what
// it does not need back to the operating system, and the next cycle begins at an idle process's pace.
func beginCycle(last time.Duration) {
	live := []metrics.Sample{{Name: liveBytes}}
	metrics.Read(live)
	size := live[0].Value.Uint64()
	debug.SetGCPercent(gcPercent(size, last))
	end := cycle{begin: time.Now()}
	if !idle(last) && size < heapRoom {
		end.release = time.AfterFunc(idleCycle, debug.FreeOSMemory)
	}
	type marker struct{ _ *int } // a type with a pointer shares no memory block, so it is collected alone
	runtime.AddCleanup(&marker{}, cycle.ended, end)
}

// cycle is the time between two collections.
type cycle struct {
	begin time.Time
	// release is the timer that ends the cycle of a process that has become idle; nil if none runs.
	release *time.Timer
}

func (c cycle) ended() {
	if c.release != nil {
		c.release.Stop()
	}
	beginCycle(time.Since(c.begin))
}

// idle reports whether a process whose last cycle took so long is idle; 0 is an unknown time.
func idle(last time.Duration) bool { return last >= idleCycle }

// gcPercent returns the GOGC for a heap with so many live bytes whose last cycle took so long. An idle process with
// much live data keeps the pace of a busy one, as each of its collections costs much.
func gcPercent(live uint64, last time.Duration) int {
	if idle(last) && live < heapRoom {
		return idleGCPercent
	}
	percent := math.Floor((heapRoom/float64(max(live, 1)) - 1) * 100)
	return int(min(max(percent, leastGCPercent), mostGCPercent))
}
