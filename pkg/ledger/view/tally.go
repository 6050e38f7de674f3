package view

import "github.com/berth-scheduler/berth/pkg/state"

// tally records where pods currently count.
type tally struct {
	nodes *nodeTable
	// counted records where each pod UID counts, and as what.
	counted map[string]count
	// additional records where pods count in addition: those with more than one reservation.
	additional map[string][]count
	// reserved is how many of the counted pods are not bound in the API view, undescribed how many no fact has
	// described.
	reserved, undescribed int
	// onUnknownNodes are bound pods on nodes that the facts do not show, with the version at which they were bound:
	// see HasPodsOnUnknownNodes.
	onUnknownNodes map[string]uint64
}

// count is one pod on one node.
type count struct {
	slot *slot
	pod  *state.Pod
	// since is the resourceVersion at which the pod was first seen bound to the node.
	since uint64
	// fact reports whether pod is the snapshot's. ApplyFacts recounts each pod that changes there, so other
	// recounts need no lookup, which would cost more than the rest of the recount.
	fact bool
}

func newTally(nodes *nodeTable) tally {
	return tally{
		nodes: nodes, counted: map[string]count{}, additional: map[string][]count{}, onUnknownNodes: map[string]uint64{},
	}
}

// countOn counts a pod on one node; with nil the pod counts nowhere.
func (t *tally) countOn(uid, node string, pod *state.Pod) {
	now, was := t.counted[uid]
	if was && pod != nil && now.slot.name == node && now.pod == pod {
		return
	}
	if was && pod != nil && now.slot.name == node {
		t.recountAs(uid, now, pod)
		return
	}
	if was {
		delete(t.counted, uid)
		t.uncount(now)
	}
	if pod == nil {
		return
	}
	next := t.count(node, pod)
	t.counted[uid] = next
	t.noteUnknownNode(uid, next)
}

// recountAs counts another version of a pod where the pod counts already.
func (t *tally) recountAs(uid string, now count, pod *state.Pod) {
	t.nodes.replacePod(now.slot, now.pod, pod)
	t.reserved += unbound(pod) - unbound(now.pod)
	t.undescribed += undescribed(pod) - undescribed(now.pod)
	next := count{slot: now.slot, pod: pod, since: pod.ResourceVersion}
	if now.pod.NodeName != "" {
		next.since = now.since
	}
	t.counted[uid] = next
	t.noteUnknownNode(uid, next)
}

// dropAdditional uncounts the pod's further reservations. They are counted from scratch at each recount, because almost
// no pod has any.
func (t *tally) dropAdditional(uid string) {
	if len(t.additional) == 0 {
		return
	}
	for _, c := range t.additional[uid] {
		t.uncount(c)
	}
	delete(t.additional, uid)
}

// count counts a pod on a node, whether the node exists or not.
func (t *tally) count(node string, pod *state.Pod) count {
	s := t.nodes.slot(node)
	t.nodes.addPod(s, pod)
	t.reserved += unbound(pod)
	t.undescribed += undescribed(pod)
	return count{slot: s, pod: pod, since: pod.ResourceVersion}
}

// uncount reverts count. The node's slot goes with its last pod if the node does not exist.
func (t *tally) uncount(c count) {
	t.nodes.removePod(c.slot, c.pod)
	t.reserved -= unbound(c.pod)
	t.undescribed -= undescribed(c.pod)
	t.nodes.forget(c.slot)
}

// noteUnknownNode records a bound pod that counts on a node which the facts do not show.
func (t *tally) noteUnknownNode(uid string, c count) {
	if !c.slot.placed && c.pod.NodeName != "" {
		t.onUnknownNodes[uid] = c.since
	}
}

// undescribed returns 1 for a pod that only a reservation describes, without labels and terms, else 0.
func undescribed(p *state.Pod) int {
	if p.Described() {
		return 0
	}
	return 1
}

// unbound returns 1 for a pod that is not bound in the API view, else 0.
func unbound(p *state.Pod) int {
	if p.NodeName == "" {
		return 1
	}
	return 0
}
