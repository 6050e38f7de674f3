package audit

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// checkFresh checks what was committed at this revision against all placements that exist.
func (a *replay) checkFresh() {
	byNode := map[string][]*placement{}
	for _, p := range a.fresh {
		byNode[p.nodeUID] = append(byNode[p.nodeUID], p)
		if p.pod != nil {
			a.checkSize(p)
			a.checkFit(p)
			a.checkTopology(p)
		}
	}
	for _, uid := range slices.Sorted(maps.Keys(byNode)) {
		a.checkRoom(byNode[uid])
	}
}

// horizon returns the newest state that the API server can have had when a placement was decided: its pod was not
// bound yet, and no later mark had been made.
func (a *replay) horizon(p *placement) uint64 {
	rv := a.latest(a.revision)
	if p.pod != nil && p.pod.token == p.entry.Token && p.pod.bound.known() {
		rv = min(rv, p.pod.bound.rv-1)
	}
	return rv
}

// checkSize checks that a reservation covers what the pod requests (S1).
func (a *replay) checkSize(p *placement) {
	asks := p.pod.decided(p.entry.PodRV).requests
	for _, name := range slices.Sorted(maps.Keys(asks)) {
		if name != string(corev1.ResourcePods) && p.entry.Requests[name] < asks[name] {
			a.violate("S1", []string{p.object(), nodeObject(p.node)}, "requests %d of %s, but %d is reserved",
				asks[name], name, p.entry.Requests[name])
		}
	}
}

// checkRoom checks that everything that is or may be bound on the node of these placements fits into its
// allocatable (S1), and that no two pods have the same port (S7).
func (a *replay) checkRoom(fresh []*placement) {
	first := fresh[0]
	node := a.nodes[first.nodeUID]
	if node == nil {
		a.report.note("the history does not contain the nodes of some placements")
		return
	}
	lo, hi := first.knownPods, a.horizon(first)
	for _, p := range fresh {
		hi = min(hi, a.horizon(p))
	}
	used := amounts{}
	for p := range a.standing[first.node] {
		if p.pod != nil && p.pod.ended.surely(hi) {
			a.fall(p) // ended for good at every later time
			continue
		}
		if p.ended(hi) {
			continue
		}
		for name, n := range p.least(lo, hi) {
			used[name] += n
		}
		a.checkPorts(fresh, p)
	}
	mine := amounts{}
	for _, p := range fresh {
		for name, n := range p.least(lo, hi) {
			mine[name] += n
		}
	}
	others := a.foreignOn(first.node, lo, hi)
	for _, name := range slices.Sorted(maps.Keys(mine)) {
		room := node.room(name, first.knownNodes, hi)
		if mine[name] > 0 && used[name]+others[name] > room {
			a.violate("S1", append([]string{nodeObject(first.node)}, objects(fresh)...),
				"%d of %s is bound or reserved on it, but %d is allocatable", used[name]+others[name], name, room)
		}
	}
}

// least returns the least that the placement can take.
func (p *placement) least(lo, hi uint64) amounts {
	out := promisedTo(p.entry)
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

// foreignOn returns the requests of pods that other schedulers bound to a node, where the high-water mark lo shows
// them to every shard.
func (a *replay) foreignOn(node string, lo, hi uint64) amounts {
	sum := amounts{}
	for _, p := range a.foreign[node] {
		if p.bound.surely(lo) && !p.ended.maybe(hi) {
			for name, n := range p.requests(lo, hi) {
				sum[name] += n
			}
		}
	}
	return sum
}

func (a *replay) checkPorts(fresh []*placement, other *placement) {
	for _, p := range fresh {
		if p == other || p.entry.PodUID == other.entry.PodUID {
			continue
		}
		for _, port := range p.entry.Ports {
			if slices.ContainsFunc(other.entry.Ports, func(q ledger.HostPort) bool { return clash(port, q) }) {
				a.violate("S7", []string{p.object(), other.object(), nodeObject(p.node)},
					"uses host port %d of the node, which %s also uses", port.Port, other.name())
			}
		}
	}
}

// portsOf returns the node ports that a pod occupies.
func portsOf(pod *corev1.Pod) []ledger.HostPort {
	var out []ledger.HostPort
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for _, port := range c.Ports {
			if port.HostPort > 0 {
				out = append(out, ledger.HostPort{IP: port.HostIP, Protocol: string(port.Protocol), Port: port.HostPort})
			}
		}
	}
	return out
}

func clash(a, b ledger.HostPort) bool {
	wild := func(ip string) bool { return ip == "" || ip == "0.0.0.0" }
	protocol := func(p string) string {
		if p == "" {
			return string(corev1.ProtocolTCP)
		}
		return p
	}
	return a.Port == b.Port && protocol(a.Protocol) == protocol(b.Protocol) && (a.IP == b.IP || wild(a.IP) || wild(b.IP))
}

// checkFit checks that at some moment that the decision may have seen, the pod could run on the node: it selects
// the node and tolerates its taints.
func (a *replay) checkFit(p *placement) {
	node := a.nodes[p.nodeUID]
	if node == nil {
		return
	}
	pod, why := p.pod.decided(p.entry.PodRV).pod, ""
	for _, v := range within(node.versions, p.knownNodes, a.horizon(p)) {
		if why = objection(pod, v.object); why == "" {
			return
		}
	}
	a.violate("fit", []string{p.object(), nodeObject(p.node)}, "was placed on a node %s", why)
}

// selects reports whether a pod's selector and required node affinity match a node.
func selects(pod *corev1.Pod, node *corev1.Node) bool {
	ok, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	return ok && err == nil
}

// objection returns why a pod may not be placed on a node; "" when it may.
func objection(pod *corev1.Pod, node *corev1.Node) string {
	if !selects(pod, node) {
		return "that it does not select"
	}
	taints := slices.Clone(node.Spec.Taints)
	if node.Spec.Unschedulable {
		taints = append(taints, corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule})
	}
	if taint, found := untolerated(pod, taints); found {
		return fmt.Sprintf("whose taint %s it does not tolerate", taint.ToString())
	}
	return ""
}

// untolerated returns the first taint that keeps a pod away. The comparison operators of tolerations are an alpha
// feature upstream and disabled.
func untolerated(pod *corev1.Pod, taints []corev1.Taint) (taint corev1.Taint, found bool) {
	return schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
}

func objects(placements []*placement) []string {
	out := make([]string, len(placements))
	for i, p := range placements {
		out[i] = p.object()
	}
	slices.Sort(out)
	return out
}
