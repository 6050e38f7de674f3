package decide

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// A held pod leaves its pool when its bind shows in the facts. If its entry vanishes from the ledger instead, that
// alone proves nothing: the facts may lag behind the binder that handed the entry over. The document's high-water is
// how far the facts must have come before the absence of a bind is an answer (ledger rule 3). Until then the pod is
// settling.
//
// A place that was held for a pod until its victims have gone vanishes in the same way when it is given up or taken
// by a more important pod. No bind has failed then, so the pod is offered again at once.
//
// A reservation that ends without a bind leaves room, as a deleted pod does, and other pods are woken as if a pod had
// been deleted (upstream: an assumed pod is forgotten). So does a place that was kept for the replacement of a pod,
// unless a pod has taken it.
//
// A hold for plugins (txns.IsPrepared) vanishes together with an answer to the attempt. Whichever is seen first,
// the pod moves to where the answer puts it.

// holds applies what the ledger shows of reservations: which pods are held, which of those settle, and whom the end of
// a reservation could help.
type holds struct {
	world *waiting.World
	// live is shared with the backlog, which only updates the pods in it.
	live    reservations
	backlog *backlog
}

// protectionEnded wakes the pods that could preempt pods which until now could not be victims. What they wait for is
// equivalent to the deletion of a disruption budget that protected those pods.
func (h *holds) protectionEnded(above int32, now waiting.Moment) {
	h.record(waiting.Occurrence{
		Change: rule.Change{Kind: events.KindDisruptionBudget, Actions: rule.Delete}, Blind: true,
		Above: above, Revision: h.world.Revision,
	}, now)
}

// placesFreed wakes the pods that could use the room of pods that are not known.
func (h *holds) placesFreed(now waiting.Moment) {
	h.record(waiting.Occurrence{
		Change: rule.Change{Kind: events.KindPod, Actions: rule.Delete}, Blind: true, Revision: h.world.Revision,
	}, now)
}

// record passes an occurrence in the ledger to the backlog. Its position in the facts is that of now.
func (h *holds) record(o waiting.Occurrence, now waiting.Moment) {
	o.Sequence, o.At = h.world.Facts.Sequence, now
	h.backlog.occurred(&o, now)
}

// reset drops the reservations that a full list no longer has, and returns how many those are. Some reservations may
// have come and gone since the last look; it is not known whose they were.
func (h *holds) reset(list []Hold, now waiting.Moment) (gone int) {
	live := make(map[string]bool, len(list))
	for _, hold := range list {
		live[hold.PodUID] = hold.Live
	}
	uids := slices.Sorted(keysNotIn(h.live, live))
	for _, uid := range uids {
		h.ended(Hold{PodUID: uid}, now)
	}
	return len(uids)
}

// keysNotIn visits the keys of m that other does not have, or has as false.
func keysNotIn(m map[string]*state.Pod, other map[string]bool) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !other[k] && !yield(k) {
				return
			}
		}
	}
}

// apply applies what the ledger shows of one pod.
func (h *holds) apply(hold Hold, now waiting.Moment) {
	if hold.Live {
		h.reserved(hold.PodUID, now)
	} else {
		h.ended(hold, now)
	}
}

// reserved records a live reservation: whatever a message claimed, the pod is held.
func (h *holds) reserved(uid string, now waiting.Moment) {
	e, ok := h.backlog.pods[uid]
	if !ok {
		if _, known := h.live[uid]; !known {
			h.live[uid] = nil
		}
		return
	}
	h.live[uid] = e.Pod
	if e.Hold.Live {
		return
	}
	h.backlog.pools.Detach(e)
	e.Hold = waiting.Hold{Live: true}
	e.Attempt.Token, e.Attempt.Lost = "", 0
	e.Await = waiting.Await{}
	h.backlog.pools.Enter(e, h.backlog.pools.Held, waiting.EventReserved, now)
}

// ended records the end of a reservation.
func (h *holds) ended(end Hold, now waiting.Moment) {
	pod, was := h.live[end.PodUID]
	delete(h.live, end.PodUID)
	e, known := h.backlog.pods[end.PodUID]
	switch {
	case known && was:
		e.Hold = waiting.Hold{
			Progress: end.HW, Gone: h.world.Revision, Withdrawn: end.Withdrawn,
			Answered: end.Prepared && e.Hold.Answered,
		}
		h.backlog.pools.AwaitOutcome(e)
	case known:
		// The reservation came and went between two looks; the pod stays in its pool.
		h.placeFreed(e.Pod, h.world.Revision, now)
	case !end.Bound:
		h.placeFreed(pod, h.world.Revision, now)
	}
}

// newGeneration ends the wait of settling pods for a high-water of another generation of the ledger: if Kubernetes
// went back, the facts may take hours to reach it. Shards wait for facts from after the generation's beginning before
// they place such a pod.
func (h *holds) newGeneration(now waiting.Moment) {
	for e := range h.backlog.pools.Settling {
		e.Hold.Progress = 0
	}
	h.settle(now)
}

// settle frees the held pods whose reservation is certainly gone, in the order of their arrival. Where a pod goes
// depends on how the reservation ended: after an answer to where the answer puts it, at once into the active pods if
// the place could never have been bound, and otherwise into backoff like after a failed bind. Pods that could use the
// place are woken afterwards, because the place is certainly free only now.
func (h *holds) settle(now waiting.Moment) {
	settling := h.backlog.pools.Settling
	if len(settling) == 0 {
		return
	}
	var freed []*waiting.Entry
	for e := range settling {
		if !h.unsettled(e, now) {
			freed = append(freed, e)
		}
	}
	slices.SortFunc(freed, waiting.BySerial)
	for _, e := range freed {
		was := e.Hold
		e.Hold = waiting.Hold{}
		switch {
		case was.Answered && e.Verdict.Kind == events.DecisionUnplaceable:
			h.backlog.pools.Rejected(e, now)
		case was.Answered && e.Verdict.Kind == events.DecisionFailed:
			h.backlog.pools.Failed(e, now)
		case was.Withdrawn:
			e.Verdict.BackoffUntil = 0
			h.backlog.pools.Free(e, waiting.EventWithdrawn, now)
		default:
			h.backlog.pools.Released(e, now)
		}
		if was.Gone != 0 {
			h.placeFreed(e.Pod, was.Gone, now)
		}
	}
}

// unsettled reports whether it is still open what has become of a pod's reservation: the ledger's view has not reached
// the revision at which a message reported it, or the facts have not reached the high-water of the document that had
// it.
func (h *holds) unsettled(e *waiting.Entry, now waiting.Moment) bool {
	f := h.world.Facts
	return e.Hold.Revision > h.world.Revision && now < e.Hold.Until ||
		e.Hold.Progress > 0 && (!f.ProgressKnown || f.PodProgress < e.Hold.Progress)
}

// reservedNode stands for the node of a reservation that is gone: hints only check whether a pod held a place.
const reservedNode = "(reserved)"

// placeFreed wakes the pods that can use the room of a reservation which ended at a ledger revision. pod is the pod
// that had it, nil if that is not known.
func (h *holds) placeFreed(pod *state.Pod, revision int64, now waiting.Moment) {
	o := waiting.Occurrence{
		Change:   rule.Change{Kind: events.KindPod, Actions: rule.Delete},
		Blind:    pod == nil,
		Revision: revision,
	}
	if pod != nil {
		was := *pod
		was.NodeName = reservedNode
		o.Change.OldPod = &was
	}
	h.record(o, now)
}
