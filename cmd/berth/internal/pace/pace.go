package pace

import (
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
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
	// idleGCPercent applies to an idle process: one that would need longer than idleCycle to allocate that share of its
	// live data. There, collecting more often costs little, and garbage that is kept is memory that other processes
	// could use.
	idleGCPercent = 40
	idleCycle     = 5 * time.Second
	// liveBytes is the metric of what the last collection found in use. The heap's size right after a collection
	// still includes garbage that is not swept yet, so a rule based on that size collects several times as often as
	// intended.
	liveBytes = "/gc/heap/live:bytes"
	// allocatedBytes is the metric of everything that was ever allocated.
	allocatedBytes = "/gc/heap/allocs:bytes"
)

// Tune sets the collector's pace for a busy process, and sets it again after every collection by the rate at
// which the process allocated before it. An operator's GOGC is respected; a memory limit (GOMEMLIMIT) applies in either
// case.
func Tune() {
	if os.Getenv("GOGC") != "" {
		return
	}
	beginCycle(false)
}

// cycle is the time between two collections. Its end is detected by the cleanup of a marker object.
type cycle struct {
	began           time.Time
	live, allocated uint64 // at the beginning
	// quiet is set when a busy process has become idle in this cycle; ended, when the next cycle has begun.
	quiet, ended atomic.Bool
}

// beginCycle sets the pace of the cycle that begins. A process that is collected at a busy process's pace, and becomes
// idle, is collected once more at once, and what it does not need goes back to the operating system.
func beginCycle(idle bool) {
	live, allocated := heap()
	debug.SetGCPercent(gcPercent(live, idle))
	c := &cycle{began: time.Now(), live: live, allocated: allocated}
	if !idle && live < heapRoom {
		c.watch(allocated)
	}
	type marker struct{ _ *int } // a type with a pointer shares no memory block, so it is collected alone
	runtime.AddCleanup(&marker{}, (*cycle).end, c)
}

// watch checks every idleCycle, until the cycle ends, whether the process has become idle. before is how much had been
// allocated at the previous check.
func (c *cycle) watch(before uint64) {
	time.AfterFunc(idleCycle, func() {
		_, allocated := heap()
		switch {
		case c.ended.Load():
		case becomesIdle(c.live, allocated-before, idleCycle):
			c.quiet.Store(true)
			debug.FreeOSMemory()
		default:
			c.watch(allocated)
		}
	})
}

func (c *cycle) end() {
	c.ended.Store(true)
	_, allocated := heap()
	beginCycle(c.quiet.Load() || staysIdle(c.live, allocated-c.allocated, time.Since(c.began)))
}

// heap returns the bytes that the last collection found in use, and those that were allocated since the start.
func heap() (live, allocated uint64) {
	s := []metrics.Sample{{Name: liveBytes}, {Name: allocatedBytes}}
	metrics.Read(s)
	return s[0].Value.Uint64(), s[1].Value.Uint64()
}

// staysIdle reports whether a process that allocated so much in that time is idle.
func staysIdle(live, allocated uint64, in time.Duration) bool {
	return float64(allocated)*idleCycle.Seconds() < float64(live)*idleGCPercent/100*in.Seconds()
}

// becomesIdle is staysIdle with half the rate: it costs a forced collection, which a process whose rate varies around
// the border must not pay again and again. The end of a cycle changes the pace at no cost.
func becomesIdle(live, allocated uint64, in time.Duration) bool {
	return staysIdle(live, 2*allocated, in)
}

// gcPercent returns the GOGC for a heap with so many live bytes. An idle process with much live data keeps the pace
// of a busy one, as each of its collections costs much.
func gcPercent(live uint64, idle bool) int {
	if idle && live < heapRoom {
		return idleGCPercent
	}
	percent := math.Floor((heapRoom/float64(max(live, 1)) - 1) * 100)
	return int(min(max(percent, leastGCPercent), mostGCPercent))
}
