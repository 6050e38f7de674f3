package plan

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/state"
)

// namespaceShares divides a cycle's evictions among namespaces: a namespace that always has pods to move leaves
// some of each limit to the other namespaces with pods. What they do not use stays unused until the next cycle.
type namespaceShares struct {
	*Input
	// others is how many other namespaces have pods that may be evicted in the cluster; onNode is the number of
	// namespaces with such pods on each node.
	others int
	onNode map[string]int
	// taken counts the evictions of a namespace in total, and takenFrom those from each node.
	taken     map[string]int
	takenFrom map[nodeAndNamespace]int
}

// nodeAndNamespace is the key of what a namespace has had from one node.
type nodeAndNamespace struct{ node, namespace string }

// newNamespaceShares counts the namespaces with pods on nodes, in total and per node, in one pass over all pods.
// Excluded namespaces do not count: they need no share.
func newNamespaceShares(in *Input) *namespaceShares {
	t := &namespaceShares{
		Input: in, onNode: map[string]int{}, taken: map[string]int{}, takenFrom: map[nodeAndNamespace]int{},
	}
	all, here := map[string]bool{}, map[nodeAndNamespace]bool{}
	for p := range in.Cluster.Pods() {
		at := nodeAndNamespace{p.NodeName, p.Namespace}
		if p.NodeName == "" || here[at] || slices.Contains(in.Policy.Berth.ExcludeNamespaces, p.Namespace) {
			continue
		}
		here[at], all[p.Namespace] = true, true
		t.onNode[p.NodeName]++
	}
	t.others = len(all) - 1
	return t
}

// share returns how much of a limit one namespace may take: all but a twentieth for each other namespace, rounded
// up so that small limits are shared as well, and at least half of it.
func share(limit, others int) int {
	const part, half = 20, 2
	return limit - min((max(others, 0)*limit+part-1)/part, limit/half)
}

// refuse returns NamespaceShare if the namespace of a pod has used its share of a limit of the cycle, and nothing
// otherwise. most is the largest number of pods in the cycle; 0 means no limit.
func (t *namespaceShares) refuse(pod *state.Pod, most int) descheduling.Refusal {
	const enough = 1 << 30 // more than any cycle evicts
	reached := func(limit *uint, others, taken int) bool {
		return limit != nil && taken >= share(int(min(*limit, enough)), others)
	}
	limits, taken := &t.Policy.Limits, t.taken[pod.Namespace]
	switch {
	case most > 0 && taken >= share(most, t.others),
		reached(limits.Total, t.others, taken),
		reached(limits.PerNode, t.onNode[pod.NodeName]-1, t.takenFrom[nodeAndNamespace{pod.NodeName, pod.Namespace}]):
		return NamespaceShare
	default:
		return ""
	}
}

// count counts a planned move of the pod.
func (t *namespaceShares) count(pod *state.Pod) {
	t.taken[pod.Namespace]++
	t.takenFrom[nodeAndNamespace{pod.NodeName, pod.Namespace}]++
}
