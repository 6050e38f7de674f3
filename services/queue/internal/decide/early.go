package decide

import (
	"github.com/berth-scheduler/berth/pkg/ledger"

	"github.com/berth-scheduler/berth/services/queue/internal/heap"
)

// earlyList holds the pods in backoff that may be offered early, by partition.
type earlyList struct {
	byPartition [ledger.Partitions]*heap.Heap[*entry]
	count       int
}

func newEarlyList() earlyList {
	var l earlyList
	for p := range l.byPartition {
		l.byPartition[p] = heap.New(earlyBefore, inEarly)
	}
	return l
}

// has reports whether a pod is listed.
func (l *earlyList) has(e *entry) bool { return e.early == l.byPartition[e.partition] }

// put lists a pod, which is in no list of pods that may be offered early.
func (l *earlyList) put(e *entry) {
	e.early = l.byPartition[e.partition]
	e.early.Put(e)
	l.count++
	if e.lane != nil {
		e.lane.listed++
	}
}

// drop takes a pod off the list, or off the pods of its lane that are not listed. It reports whether the pod was
// listed.
func (l *earlyList) drop(e *entry) bool {
	listed := l.has(e)
	e.early.Drop(e)
	e.early = nil
	if listed {
		l.count--
		if e.lane != nil {
			e.lane.listed--
		}
	}
	return listed
}

// first returns the first listed pod of some partitions; nil for none.
func (l *earlyList) first(partitions []int32) *entry {
	var best *entry
	for _, p := range partitions {
		if e := l.byPartition[p].First(); e != nil && (best == nil || earlyBefore(e, best)) {
			best = e
		}
	}
	return best
}
