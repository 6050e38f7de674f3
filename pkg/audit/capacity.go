package audit

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/audit/fit"
	"github.com/berth-scheduler/berth/pkg/ledger"
)

// capacityLaws checks that new placements fit their nodes (S1, fit) and have their ports to themselves (S7). It runs
// at the end of each revision, and calls topologyLaws for the rules about other nodes.
type capacityLaws struct {
	evidence *evidence
	placed   *placements
	topology *topologyLaws
	found    *findings
}

// checkFresh checks what was committed at this revision against all placements that exist. Placements of pods that the
// history does not contain are checked only as part of their node's sum. The placements of one node are added up once:
// one transaction may place many.
func (l *capacityLaws) checkFresh() {
	byNode := map[string][]*placement{}
	for _, p := range l.placed.fresh {
		byNode[p.nodeUID] = append(byNode[p.nodeUID], p)
		if p.pod != nil {
			l.checkSize(p)
			l.checkFit(p)
			l.topology.checkTopology(p)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(byNode)) {
		l.checkAllocatable(byNode[uid])
	}
}

// checkSize checks that a reservation covers what the pod requests (S1) in the version that the decision saw. The pod
// itself (resource "pods") is counted, not listed in the entry.
func (l *capacityLaws) checkSize(p *placement) {
	asks := p.pod.decided(p.entry.PodRV).requests
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if name != string(corev1.ResourcePods) && p.entry.Requests[name] < asks[name] {
			l.found.violate("S1", []string{p.object(), nodeObject(p.node)}, "requests %d of %s, but %d is reserved",
				asks[name], name, p.entry.Requests[name])
		}
	}
}

// checkAllocatable checks that everything that is or may be bound on the node of these placements fits into its
// allocatable (S1), and that no two pods have the same port (S7). All values are the best for Berth in the range of
// versions that the decision can have seen (lo to hi): the least requests of each pod, the most allocatable, and of
// the pods of other schedulers only those that the shard must have known. A resource that the new placements do not
// request is skipped: they cannot have made it exceed.
func (l *capacityLaws) checkAllocatable(fresh []*placement) {
	first := fresh[0]
	node := l.evidence.nodes[first.nodeUID]
	if node == nil {
		l.found.report.note("the history does not contain the nodes of some placements")
		return
	}
	// All fresh placements of a node were decided by one transaction, from one document, so they share lo; hi is the
	// earliest bound.
	lo, hi := first.knownPods, l.placed.horizon(first)
	for _, p := range fresh {
		hi = min(hi, l.placed.horizon(p))
	}
	used := fit.Amounts{}
	for p := range l.placed.active[first.node] {
		if p.pod != nil && p.pod.ended.certainBy(hi) {
			l.placed.deactivate(p) // ended for good at every later time
			continue
		}
		if p.ended(hi) {
			continue
		}
		for name, n := range p.leastRequests(lo, hi) {
			used[name] += n
		}
		l.checkPorts(fresh, p)
	}
	mine := fit.Amounts{}
	for _, p := range fresh {
		for name, n := range p.leastRequests(lo, hi) {
			mine[name] += n
		}
	}
	// Pods of other schedulers have no placement, so they are added from the API server's side.
	others := l.foreignRequests(first.node, lo, hi)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		room := node.mostAllocatable(name, first.knownNodes, hi)
		if mine[name] > 0 && used[name]+others[name] > room {
			l.found.violate("S1", append([]string{nodeObject(first.node)}, objects(fresh)...),
				"%d of %s is bound or reserved on it, but %d is allocatable", used[name]+others[name], name, room)
		}
	}
}

// leastRequests returns the least that the placement can take of its node between two resourceVersions: what its pod
// requested at some moment between them, without what it gets as devices. For an unknown pod it is the amount that the
// entry reserves.
func (p *placement) leastRequests(lo, hi uint64) fit.Amounts {
	out := fit.EntryRequests(p.entry)
	if p.pod != nil {
		asks := p.pod.requests(min(lo, max(p.entry.PodRV, 1)), hi)
		if len(out) == len(p.entry.Requests) {
			return asks
		}
		asks = maps.Clone(asks)
		maps.DeleteFunc(asks, func(name string, _ int64) bool {
			_, promised := out[name]
			_, asked := p.entry.Requests[name]
			return asked && !promised // provided by devices
		})
		return asks
	}
	out[string(corev1.ResourcePods)] = 1
	return out
}

// foreignRequests returns the requests of pods that other schedulers bound to a node, where the high-water mark lo
// shows them to every shard.
func (l *capacityLaws) foreignRequests(node string, lo, hi uint64) fit.Amounts {
	sum := fit.Amounts{}
	for _, p := range l.evidence.foreign[node] {
		if p.bound.certainBy(lo) && !p.ended.possibleBy(hi) {
			for name, n := range p.requests(lo, hi) {
				sum[name] += n
			}
		}
	}
	return sum
}

// checkPorts checks that no new placement has a port of another placement on the node (S7).
func (l *capacityLaws) checkPorts(fresh []*placement, other *placement) {
	for _, p := range fresh {
		if p == other || p.entry.PodUID == other.entry.PodUID {
			continue
		}
		for _, port := range p.entry.Ports {
			if slices.ContainsFunc(other.entry.Ports, func(q ledger.HostPort) bool { return fit.PortsConflict(port, q) }) {
				l.found.violate("S7", []string{p.object(), other.object(), nodeObject(p.node)},
					"uses host port %d of the node, which %s also uses", port.Port, other.name())
			}
		}
	}
}

// checkFit checks that at some moment that the decision may have seen, the pod could run on the node: it selects the
// node and tolerates its taints. The versions of the node are those from the document's high-water mark of nodes on.
func (l *capacityLaws) checkFit(p *placement) {
	node := l.evidence.nodes[p.nodeUID]
	if node == nil {
		return
	}
	pod, why := p.pod.decided(p.entry.PodRV).pod, ""
	for _, v := range within(node.versions, p.knownNodes, l.placed.horizon(p)) {
		if why = fit.UnfitReason(pod, v.object); why == "" {
			return
		}
	}
	l.found.violate("fit", []string{p.object(), nodeObject(p.node)}, "was placed on a node %s", why)
}
