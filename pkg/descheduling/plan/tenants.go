package plan

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/state"
)

// tenants share what a cycle may evict: a namespace whose pods always are to move leaves some of each limit to the
// others that have pods. What they do not use stays unused until the next cycle.
type tenants struct {
	*Input
	// others is how many namespaces have pods that may go, beside one, in the cluster and on each node.
	others int
	onNode map[string]int
	// taken by a namespace in all, and from each node.
	taken     map[string]int
	takenFrom map[nodeOf]int
}

// nodeOf is a node, for a namespace.
type nodeOf struct{ node, namespace string }

func newTenants(in *Input) *tenants {
	t := &tenants{Input: in, onNode: map[string]int{}, taken: map[string]int{}, takenFrom: map[nodeOf]int{}}
	all, here := map[string]bool{}, map[nodeOf]bool{}
	for p := range in.Cluster.Pods() {
		at := nodeOf{p.NodeName, p.Namespace}
		if p.NodeName == "" || here[at] || slices.Contains(in.Policy.Berth.ExcludeNamespaces, p.Namespace) {
			continue
		}
		here[at], all[p.Namespace] = true, true
		t.onNode[p.NodeName]++
	}
	t.others = len(all) - 1
	return t
}

// share is how much of a limit one namespace may take: all but a twentieth for each other one, rounded up so that small
// limits are shared as well, and half of it at least.
func share(limit, others int) int {
	const part, half = 20, 2
	return limit - min((max(others, 0)*limit+part-1)/part, limit/half)
}

// refuse says whether the namespace of a pod has its share of a limit of the cycle, which is at most most pods; 0 is no
// limit.
func (t *tenants) refuse(pod *state.Pod, most int) descheduling.Refusal {
	const enough = 1 << 30 // no cycle evicts as many
	reached := func(limit *uint, others, taken int) bool {
		return limit != nil && taken >= share(int(min(*limit, enough)), others)
	}
	limits, taken := &t.Policy.Limits, t.taken[pod.Namespace]
	switch {
	case most > 0 && taken >= share(most, t.others),
		reached(limits.Total, t.others, taken),
		reached(limits.PerNode, t.onNode[pod.NodeName]-1, t.takenFrom[nodeOf{pod.NodeName, pod.Namespace}]):
		return NamespaceShare
	default:
		return ""
	}
}

func (t *tenants) take(pod *state.Pod) {
	t.taken[pod.Namespace]++
	t.takenFrom[nodeOf{pod.NodeName, pod.Namespace}]++
}
