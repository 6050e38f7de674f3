package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"

	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// unseenLimit bounds the unseen pods, to about the pods of the largest clusters. Each that is dropped is an attempt
// that is not counted: the pod is tried once more than necessary.
const unseenLimit = 1 << 20

// unseenPods holds what is known of attempts at pods that the facts have not shown yet. Facts and decisions are two
// logs, and either may be read faster than the other.
type unseenPods map[string]*waiting.Entry

// record records a decision about a pod that the facts have not shown. gone reports whether they would show the pod if
// it still existed; record records an answer.
func (u unseenPods) record(d *events.Decision, gone bool, record func(*waiting.Entry)) {
	e, ok := u[d.Pod.UID]
	if !ok {
		if gone || !waiting.IsAnswer(d.Kind) || len(u) >= unseenLimit {
			return
		}
		e = &waiting.Entry{}
		u[d.Pod.UID] = e
	}
	switch {
	case d.Kind == events.DecisionCondition:
		e.ConditionWritten(d)
	case waiting.IsAnswer(d.Kind) && e.IsNews(d):
		record(e)
	}
}

// take returns the entry of a pod that is new to the facts, with what is known of earlier attempts at it.
func (u unseenPods) take(uid string) *waiting.Entry {
	e, ok := u[uid]
	if !ok {
		return &waiting.Entry{}
	}
	delete(u, uid)
	return e
}

// forgetThrough drops what is known of pods that the facts would have shown by a sequence.
func (u unseenPods) forgetThrough(sequence uint64) {
	for uid, e := range u {
		if e.Verdict.FactSequence <= sequence {
			delete(u, uid)
		}
	}
}
