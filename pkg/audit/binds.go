package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
)

// bindLaws checks the binds at the API server, after the walk (S2, I3, and S1 as the API server itself shows it: the
// pods that a kubelet would run).
type bindLaws struct {
	evidence    *evidence
	state       *ledgerState
	placed      *placements
	generations *generations
	found       *findings
}

// checkBinds checks every bind by Berth against the reservation that it names: there must have been a committed one
// for that node (I3), and it must not have been released before (S2). A reservation is released at the high-water mark
// that its removal wrote: from then on a shard that has applied it may use the place again, so a bind that is
// certainly newer is too late. Binds from before the recording, beyond its end, and those of a lost ledger are not
// judged.
func (l *bindLaws) checkBinds() {
	for _, uid := range slices.Sorted(maps.Keys(l.evidence.pods)) {
		pod := l.evidence.pods[uid]
		if !pod.boundByBerth() || pod.initially || l.evidence.timeline.cutOff(pod.bound) {
			continue
		}
		p, attempt := l.placed.find(uid, pod.token), pod.token
		f := Finding{
			Severity: Violation, Invariant: "I3", ResourceVersion: pod.bound.rv,
			Objects: []string{pod.object(), nodeObject(pod.node)},
		}
		switch {
		case p == nil && (l.state.jumped || l.generations.fromLostLedger(pod.bound)):
			continue
		case p == nil:
			f.Message = fmt.Sprintf("was bound by attempt %s, which never had a reservation", attempt)
		case p.node != pod.node:
			f.Message = fmt.Sprintf("was bound to %s by attempt %s, which had reserved %s", pod.node, attempt, p.node)
		case p.left != 0 && pod.bound.after >= p.leftAt:
			f.Invariant, f.Revision = "S2", p.left
			f.Message = fmt.Sprintf("was bound by attempt %s, whose reservation had been released at high-water %d",
				attempt, p.leftAt)
		default:
			continue
		}
		l.found.report.add(f)
	}
}

// checkNodesAtBinds adds up what the API server itself shows at each bind by Berth: the requests of the node's
// pods, against the most that the node had since the reservation of the bind (S1 without the ledger). Binds by
// other schedulers, and requests that grow after the bind, are not counted as Berth's errors here.
func (l *bindLaws) checkNodesAtBinds() {
	byNode := map[string][]*podHistory{}
	for _, p := range l.evidence.pods {
		if p.bound.happened() {
			byNode[p.node] = append(byNode[p.node], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		pods := byNode[name]
		slices.SortFunc(pods, func(x, y *podHistory) int { return cmp.Compare(x.bound.rv, y.bound.rv) })
		for i, p := range pods {
			if p.boundByBerth() && !p.initially {
				l.checkNodeAtBind(p, pods[:i+1])
			}
		}
	}
}

// checkNodeAtBind adds up the requests of the pods on a node, in the order of their binds up to this one. A violation
// needs a resource that the bound pod requests, and only pods of Berth on the node.
func (l *bindLaws) checkNodeAtBind(p *podHistory, pods []*podHistory) {
	reserved := l.placed.find(p.uid, p.token)
	node := l.evidence.nodeNamed(p.node, p.bound.rv)
	if reserved == nil || node == nil {
		return
	}
	// All pods that were bound to the node up to this bind, by any scheduler, and may not have ended.
	used, foreign := fit.Amounts{}, false
	for _, other := range pods {
		if other.ended.possibleBy(p.bound.rv) {
			continue
		}
		foreign = foreign || !other.boundByBerth()
		for name, n := range other.requests(0, p.bound.rv) {
			used[name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.last().requests)) {
		room := node.mostAllocatable(name, reserved.knownNodes, p.bound.rv)
		if p.last().requests[name] == 0 || used[name] <= room {
			continue
		}
		f := Finding{
			Severity: Violation, Invariant: "S1", ResourceVersion: p.bound.rv,
			Objects: []string{nodeObject(p.node), p.object()},
			Message: fmt.Sprintf("its pods request %d of %s after this bind, but %d is allocatable", used[name], name, room),
		}
		if foreign {
			f.Severity = Warning
			f.Message += "; not all of them were bound by Berth"
		}
		l.found.report.add(f)
	}
}
