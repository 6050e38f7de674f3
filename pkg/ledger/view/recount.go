package view

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// tally records where pods currently count.
type tally struct {
	// counted records where each pod UID counts, and as what.
	counted map[string]count
	// again records where pods count in addition: those with more than one reservation.
	again map[string][]count
	// reserved is how many of the counted pods are not bound in the API view, undescribed how many no fact has
	// described.
	reserved, undescribed int
	// onUnknownNodes are bound pods on nodes that the facts do not show, with the version at which they were bound:
	// see HasPodsOnUnknownNodes.
	onUnknownNodes map[string]uint64
}

type count struct {
	slot *slot
	pod  *state.Pod
	// since is the resourceVersion at which the pod was first seen bound to the node.
	since uint64
	// fact reports whether pod is the snapshot's. ApplyFacts recounts each pod that changes there, so other
	// recounts need no lookup, which would cost more than the rest of the recount.
	fact bool
}

func newTally() tally {
	return tally{counted: map[string]count{}, again: map[string][]count{}, onUnknownNodes: map[string]uint64{}}
}

// recount counts one pod where the counting rule requires, and nowhere else.
func (v *View) recount(uid string) {
	if c, counted := v.tally.counted[uid]; counted && c.fact {
		v.recountAs(uid, c.pod)
		return
	}
	pod, _ := v.snapshot.Pod(uid)
	v.recountAs(uid, pod)
}

// recountAs is recount for a caller that has the snapshot's pod; nil if the snapshot has none.
func (v *View) recountAs(uid string, fact *state.Pod) {
	node, pod := v.place(uid, fact)
	v.noteKept(uid, node, pod)
	v.dropAgain(uid)
	v.countOn(uid, node, pod)
	if c, counted := v.tally.counted[uid]; counted && c.fact != (c.pod == fact) {
		c.fact = c.pod == fact
		v.tally.counted[uid] = c
	}
	v.countAgain(uid, node, pod)
}

// countOn counts a pod on one node; with nil the pod counts nowhere.
func (v *View) countOn(uid, node string, pod *state.Pod) {
	now, was := v.tally.counted[uid]
	if was && pod != nil && now.slot.name == node && now.pod == pod {
		return
	}
	if was {
		delete(v.tally.counted, uid)
		v.uncount(now)
	}
	if pod == nil {
		return
	}
	next := v.count(node, pod)
	if was && now.slot.name == node && now.pod.NodeName != "" {
		next.since = now.since
	}
	v.tally.counted[uid] = next
	v.noteUnknownNode(uid, next)
}

// countAgain counts every further reservation of an unbound pod on the node of that reservation's document: as long
// as the reservation exists, a bind may follow it.
func (v *View) countAgain(uid, node string, pod *state.Pod) {
	if pod == nil || pod.NodeName != "" {
		return
	}
	for doc := range v.ledger.Reservations(uid) {
		if doc.NodeName != node {
			v.tally.again[uid] = append(v.tally.again[uid], v.count(doc.NodeName, pod))
		}
	}
}

func (v *View) dropAgain(uid string) {
	if len(v.tally.again) == 0 {
		return
	}
	for _, c := range v.tally.again[uid] {
		v.uncount(c)
	}
	delete(v.tally.again, uid)
}

func (v *View) count(node string, pod *state.Pod) count {
	s := v.slot(node)
	v.addPod(s, pod)
	v.tally.reserved += unbound(pod)
	v.tally.undescribed += undescribed(pod)
	return count{slot: s, pod: pod, since: pod.ResourceVersion}
}

func (v *View) uncount(c count) {
	v.removePod(c)
	v.tally.reserved -= unbound(c.pod)
	v.tally.undescribed -= undescribed(c.pod)
	v.forget(c.slot)
}

func undescribed(p *state.Pod) int {
	if p.Described() {
		return 0
	}
	return 1
}

func (v *View) addPod(s *slot, pod *state.Pod) {
	s.info.AddPod(pod)
	if s.placed {
		v.follower.AddPod(s.info, pod)
		v.doubt(s)
	}
}

func (v *View) removePod(c count) {
	c.slot.info.RemovePod(c.pod.UID)
	if c.slot.placed {
		v.follower.RemovePod(c.slot.info, c.pod)
		v.doubt(c.slot)
	}
}

func unbound(p *state.Pod) int {
	if p.NodeName == "" {
		return 1
	}
	return 0
}
