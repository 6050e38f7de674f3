package quota

import (
	"fmt"
	"time"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/heap"
)

// namespace is one namespace: its budget, what counts against it, and the pods that wait for room.
type namespace struct {
	name string
	// used is the usage of the namespace's pods, and leaving that of the pods whose gate is about to be removed.
	used, leaving Amounts
	budget        Amounts
	// problem describes what is wrong with the annotation. No pod is let go until it is fixed.
	problem string
	// waiting are the pods that wait for room, in order.
	waiting *heap.Heap[*waiter]
	// overdue holds the UIDs of pods whose removal a leader must request again, the longest overdue first. It may also
	// hold some that are gone.
	overdue []string
	// deficit is the milli-CPU that the namespace may still release in its turns. It is 0 while there is no turn, so that
	// a namespace cannot save for later.
	deficit int64
	// inTurn means that the namespace is in the list of turns.
	inTurn bool
}

// waiter is a pod with gates. It waits for room if the quota gate is its last one and it has not been let go.
type waiter struct {
	pod    *state.Pod
	queued time.Time
	serial uint64
	// waits means that the pod is in the queue of its namespace, and index is its position there.
	waits bool
	index int32
}

// waitsBefore is the order in which the pods of a namespace are let go: priority, then time, then arrival.
func waitsBefore(a, b *waiter) bool {
	if a.pod.Priority != b.pod.Priority {
		return a.pod.Priority > b.pod.Priority
	}
	if d := a.queued.Compare(b.queued); d != 0 {
		return d < 0
	}
	return a.serial < b.serial
}

// readBudget applies the annotation of a namespace. Without one, the namespace is not limited; with one that cannot be
// parsed, it has a problem and releases no further pod: to ignore a limit that someone has set would be worse than to
// wait.
func (s *namespace) readBudget(from *state.Object) {
	text, ok := from.API.GetAnnotations()[Annotation]
	if !ok {
		return
	}
	budget, err := Parse(text)
	if err != nil {
		s.problem = fmt.Sprintf("namespace %s: annotation %s: %v", s.name, Annotation, err)
		return
	}
	s.budget = budget
}

// hasRoom reports whether the budget has room for a pod, in addition to what is used and what is about to be.
func (s *namespace) hasRoom(w *waiter) bool {
	return s.problem == "" && s.used.Plus(s.leaving).Plus(Requests(w.pod)).Within(s.budget)
}
