package audit

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// checkBinds checks every bind by Berth against the reservation that it names: there must have been a committed one
// for that node (I3), and it must not have been released before (S2).
func (a *replay) checkBinds() {
	for _, uid := range slices.Sorted(maps.Keys(a.pods)) {
		pod := a.pods[uid]
		if !pod.ours() || pod.initially || a.cutOff(pod.bound) {
			continue
		}
		p, attempt := a.placementOf(uid, pod.token), pod.token
		f := Finding{
			Severity: Violation, Invariant: "I3", ResourceVersion: pod.bound.rv,
			Objects: []string{pod.object(), nodeObject(pod.node)},
		}
		switch {
		case p == nil && (a.jumped || a.ofLost(pod.bound)):
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
		a.report.add(f)
	}
}

// cutOff reports whether the recording of the ledger may have ended before the reservation of a bind.
func (a *replay) cutOff(bound moment) bool {
	if a.end != nil && a.end.Reason == EndStopped {
		return bound.rv > a.end.Objects
	}
	return len(a.marks) == 0 || bound.rv > a.marks[len(a.marks)-1].Objects
}

// checkNodesAtBinds adds up what the API server itself shows at each bind by Berth: the requests of the node's
// pods, against the most that the node had since the reservation of the bind (S1 without the ledger). Binds by
// other schedulers, and requests that grow after the bind, are not counted as Berth's errors here.
func (a *replay) checkNodesAtBinds() {
	byNode := map[string][]*podLife{}
	for _, p := range a.pods {
		if p.bound.known() {
			byNode[p.node] = append(byNode[p.node], p)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(byNode)) {
		pods := byNode[name]
		slices.SortFunc(pods, func(x, y *podLife) int { return cmp.Compare(x.bound.rv, y.bound.rv) })
		for i, p := range pods {
			if p.ours() && !p.initially {
				a.checkNodeAtBind(p, pods[:i+1])
			}
		}
	}
}

func (a *replay) checkNodeAtBind(p *podLife, pods []*podLife) {
	reserved := a.placementOf(p.uid, p.token)
	node := a.nodeNamed(p.node, p.bound.rv)
	if reserved == nil || node == nil {
		return
	}
	used, foreign := amounts{}, false
	for _, other := range pods {
		if other.ended.maybe(p.bound.rv) {
			continue
		}
		foreign = foreign || !other.ours()
		for name, n := range other.requests(0, p.bound.rv) {
			used[name] += n
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.last().requests)) {
		room := node.room(name, reserved.knownNodes, p.bound.rv)
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
		a.report.add(f)
	}
}

// nodeNamed returns the node that had a name at rv, the oldest if one may have replaced another.
func (a *replay) nodeNamed(name string, rv uint64) *nodeLife {
	var found *nodeLife
	for _, n := range a.byName[name] {
		if n.born.maybe(rv) && !n.gone.surely(rv) && (found == nil || n.born.rv < found.born.rv) {
			found = n
		}
	}
	return found
}
