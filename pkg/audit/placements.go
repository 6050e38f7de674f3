package audit

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// placements holds the reservations that were committed up to the revision being checked, and what became of them. A
// placement is made when it may be bound for the first time, and is never deleted: it counts on its node (active)
// until it is certain that its pod does not use the node. Pods that were bound before the recording are placements
// without a reservation.
type placements struct {
	// byPod is by pod UID, in order; active holds those that count, by node name.
	byPod  map[string][]*placement
	active map[string]map[*placement]struct{}
	// fresh holds those committed at this revision, unknown those of pods that the history does not contain.
	fresh, unknown []*placement
	// evidence and found are shared with the rest of the replay.
	evidence *evidence
	found    *findings
}

// placement is one reservation that was committed, or a bind from before the history. Its fields are set when it is
// made, except left, leftAt and released, which are set when its reservation leaves the document.
type placement struct {
	// pod is nil if the history does not contain the pod.
	pod           *podHistory
	entry         ledger.Entry
	nodeUID, node string
	// knownPods and knownNodes are the versions that the deciding shard must have applied: the high-water marks of
	// the document before.
	knownPods, knownNodes uint64
	// class is that of the version which the decision saw; nil for an unknown pod.
	class *class
	// committed is the revision that committed it; left is the one that removed it, with the high-water mark
	// leftAt.
	committed, left int64
	leftAt          uint64
	// released is the revision that ended it without a bind.
	released int64
}

// ended reports whether the placement may have ended at rv: its reservation was released without a bind, or its pod
// may have ended. Checks against other pods leave such a placement out.
func (p *placement) ended(rv uint64) bool {
	return p.released != 0 || p.pod != nil && p.pod.ended.possibleBy(rv)
}

// endedAtMark reports whether the placement had certainly ended at a mark.
func (p *placement) endedAtMark(m recording.Mark) bool {
	return p.released != 0 && p.released <= m.Ledger || p.pod != nil && p.pod.ended.certainBy(m.Objects)
}

// name and object return the pod as namespace/name and as an object of a finding.
func (p *placement) name() string { return p.entry.Namespace + "/" + p.entry.Name }

func (p *placement) object() string { return entryObject(p.entry) }

// newPlacements returns no placements.
func newPlacements(evidence *evidence, found *findings) *placements {
	return &placements{
		byPod: map[string][]*placement{}, active: map[string]map[*placement]struct{}{}, evidence: evidence, found: found,
	}
}

// addInitial adds placements for the pods that Berth had bound when the recording began. Pods of other schedulers are
// counted by capacityLaws.foreignRequests instead.
func (ps *placements) addInitial() {
	for _, p := range ps.evidence.pods {
		if p.initially && p.boundByBerth() {
			ps.addBound(p)
		}
	}
}

// addBound adds a placement for a pod that was bound for a reservation that this history does not contain. It is not
// in byPod, since no later bind can name it, and it is not fresh.
func (ps *placements) addBound(p *podHistory) {
	entry := ledger.Entry{
		PodUID: p.uid, Namespace: p.last().pod.Namespace, Name: p.last().pod.Name, Token: p.token,
		Ports: fit.Ports(p.last().pod),
	}
	made := &placement{pod: p, entry: entry, node: p.node, class: p.last().class}
	if node := ps.evidence.nodeNamed(p.node, p.bound.rv); node != nil {
		made.nodeUID = node.uid
	}
	ps.activate(made)
}

// commit records that a reservation may be bound from this revision on: it was made as Committed, or promoted from
// Held. before is the node's document before the revision; its high-water marks are the versions that the shard must
// have applied to use the node.
func (ps *placements) commit(e ledger.Entry, before, after ledger.NodeDoc) {
	p := &placement{
		pod: ps.evidence.pods[e.PodUID], entry: e, nodeUID: after.NodeUID, node: after.NodeName, committed: ps.found.revision,
		knownPods: before.HW[ledger.KindPod], knownNodes: before.HW[ledger.KindNode],
	}
	if p.pod != nil {
		p.class = p.pod.decided(e.PodRV).class
	} else {
		ps.unknown = append(ps.unknown, p)
	}
	ps.byPod[e.PodUID] = append(ps.byPod[e.PodUID], p)
	ps.activate(p)
	ps.fresh = append(ps.fresh, p)
	ps.found.report.Reserved++
}

// release records that a committed reservation was removed: handed over to the bound pod, or taken back by a fence.
// Only in the latter case the placement stops counting; a bound pod counts until it has ended.
func (ps *placements) release(e ledger.Entry, before, after ledger.NodeDoc) {
	if e.State == ledger.Fencing {
		ps.found.report.Fenced++
	} else {
		ps.found.report.HandedOver++
	}
	p := ps.find(e.PodUID, e.Token)
	if p == nil {
		return
	}
	p.left, p.leftAt = ps.found.revision, after.HW[ledger.KindPod]
	if p.pod == nil || p.pod.node != before.NodeName || p.pod.token != e.Token {
		p.released = ps.found.revision
		ps.deactivate(p)
	}
}

// adopt applies the state of a document after a jump: what appeared is committed and what disappeared released,
// without checks. An empty before makes the new placements know nothing (high-water marks of 0), which excuses
// whatever they ignored.
func (ps *placements) adopt(before, after ledger.NodeDoc) {
	for _, e := range reservations(before) {
		if _, ok := after.Find(e.PodUID); !ok && e.State != ledger.Held {
			ps.release(e, before, after)
		}
	}
	for _, e := range reservations(after) {
		if e.State != ledger.Held && ps.find(e.PodUID, e.Token) == nil {
			ps.commit(e, ledger.NodeDoc{}, after)
		}
	}
}

// find returns the placement of an attempt at a pod; nil if the attempt never had a committed reservation.
func (ps *placements) find(podUID string, token ledger.Token) *placement {
	for _, p := range ps.byPod[podUID] {
		if p.entry.Token == token {
			return p
		}
	}
	return nil
}

// activate counts a placement on its node and in its class. The node is by name, not UID: a bind sent for a deleted
// node would reach the one that has its name now.
func (ps *placements) activate(p *placement) {
	if ps.active[p.node] == nil {
		ps.active[p.node] = map[*placement]struct{}{}
	}
	ps.active[p.node][p] = struct{}{}
	if p.class != nil {
		p.class.placements[p] = struct{}{}
	}
}

// deactivate removes a placement from its node. Its class keeps it, for decisions that did not know yet that it had
// ended.
func (ps *placements) deactivate(p *placement) { delete(ps.active[p.node], p) }

// horizon returns the newest state that the API server can have had when a placement was decided: its pod was not
// bound yet, and no later mark had been made.
func (ps *placements) horizon(p *placement) uint64 {
	rv := ps.evidence.timeline.upperBound(ps.found.revision)
	if p.pod != nil && p.pod.token == p.entry.Token && p.pod.bound.happened() {
		rv = min(rv, p.pod.bound.rv-1)
	}
	return rv
}

// objects returns the pods of placements as objects of a finding, sorted.
func objects(placements []*placement) []string {
	out := make([]string, len(placements))
	for i, p := range placements {
		out[i] = p.object()
	}
	slices.Sort(out)
	return out
}
