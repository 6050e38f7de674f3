package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

const (
	// workOfRun bounds the cost of the rules of pods in a run, for all namespaces together: so many looks at a kind
	// of pods, a node or the like take some five seconds of one processor. Each namespace has an equal share.
	workOfRun = 100_000_000
	// leastWork is the smallest share of a namespace: more than the rules of some thousand pods cost.
	leastWork = 500_000
	// maxRules is the largest number of required anti-affinity terms, spread constraints, and required and
	// preferred terms of node affinity, each, that a pod may have to be considered. Kubernetes sets no limit but
	// the size of the object.
	maxRules = 64
	// maxRequirements is the largest number of requirements, with their values, that the node affinity of a pod may
	// have in total.
	maxRequirements = 1 << 10
)

// budget holds the cost of rules so far, and an index that makes them cheaper. It belongs to one View.
type budget struct {
	// selected holds the selected nodes of the view.
	selected []*Node
	// accounts holds the accounts of namespaces; share is the initial remainder of each. Both are set when first
	// needed.
	accounts map[string]*account
	share    int
	// keys indexes the labels of the selected nodes; built when first needed.
	keys map[string]*nodesByValue
}

// account holds the remainder of a namespace's share. Any user can write rules that take hours to evaluate:
// thousands of terms, each to be compared with every pod. So the rules of the pods of a namespace get a share of
// the work of a run, and what exceeds it is not evaluated. Namespaces are charged separately, so that one cannot
// use up the share of another. A count is used and not a clock, because equal inputs must give equal plans on any
// machine.
type account struct{ remaining int }

// spend subtracts looks from the share, and reports whether the share allows them. Once it does not, it allows no
// more.
func (a *account) spend(looks int) bool {
	if a.remaining >= 0 {
		a.remaining -= looks
	}
	return a.remaining >= 0
}

// account returns the account of the namespace of a pod that has rules.
func (w *budget) account(namespace string) *account {
	if w.accounts == nil {
		w.accounts = map[string]*account{}
		w.share = max(workOfRun/max(w.namespaces(), 1), leastWork)
	}
	a := w.accounts[namespace]
	if a == nil {
		a = &account{remaining: w.share}
		w.accounts[namespace] = a
	}
	return a
}

// namespaces returns how many namespaces have pods on the selected nodes.
func (w *budget) namespaces() int {
	all := map[string]bool{}
	for _, n := range w.selected {
		for _, pod := range n.Pods {
			all[pod.Namespace] = true
		}
	}
	return len(all)
}

// costOf returns the cost of evaluating a selector on labels, which compares with each of its values.
func costOf(selector labels.Selector) int {
	requirements, _ := selector.Requirements()
	cost := 1 + len(requirements)
	for i := range requirements {
		cost += len(requirements[i].ValuesUnsorted())
	}
	return cost
}

// manyRules reports whether a pod has more rules of one sort, or more owners, than are considered, or an owner with
// too long a UID.
func manyRules(pod *Pod) bool {
	s := pod.spec()
	if len(s.TopologySpreadConstraints) > maxRules || len(s.NodeSelector) > maxRequirements ||
		manyOwners(pod.Template.OwnerReferences) {
		return true
	}
	if s.Affinity == nil {
		return false
	}
	if a := s.Affinity.PodAntiAffinity; a != nil && len(a.RequiredDuringSchedulingIgnoredDuringExecution) > maxRules {
		return true
	}
	return s.Affinity.NodeAffinity != nil && manyNodeTerms(s.Affinity.NodeAffinity)
}

// manyNodeTerms reports whether node affinity has too many terms, or too many requirements and values in total.
func manyNodeTerms(a *corev1.NodeAffinity) bool {
	var required []corev1.NodeSelectorTerm
	if of := a.RequiredDuringSchedulingIgnoredDuringExecution; of != nil {
		required = of.NodeSelectorTerms
	}
	preferred := a.PreferredDuringSchedulingIgnoredDuringExecution
	if len(required) > maxRules || len(preferred) > maxRules {
		return true
	}
	n := 0
	for i := range required {
		n += requirementsOf(&required[i])
	}
	for i := range preferred {
		n += requirementsOf(&preferred[i].Preference)
	}
	return n > maxRequirements
}

// requirementsOf counts the requirements of a term, and their values.
func requirementsOf(t *corev1.NodeSelectorTerm) int {
	n := len(t.MatchExpressions) + len(t.MatchFields)
	for i := range t.MatchExpressions {
		n += len(t.MatchExpressions[i].Values)
	}
	for i := range t.MatchFields {
		n += len(t.MatchFields[i].Values)
	}
	return n
}

// manyOwners reports whether there are too many owners, or one whose UID is too long to be attributed later.
func manyOwners(refs []metav1.OwnerReference) bool {
	return len(refs) > maxOwners || slices.ContainsFunc(refs, func(o metav1.OwnerReference) bool {
		return len(o.UID) > maxOwnerUID
	})
}

// nodesByValue holds the selected nodes that have a label, in total and by its value.
type nodesByValue struct {
	nodes  []*Node
	values map[string][]*Node
}

// nodesIn returns the selected nodes with a value of a key, by name. It is cheap for keys that no node has.
func (w *budget) nodesIn(at domainID) []*Node { return w.nodesWith(at.key).values[at.value] }

// nodesWith returns the selected nodes that have a label key; an empty result for a key that no selected node has.
func (w *budget) nodesWith(key string) *nodesByValue {
	if w.keys == nil {
		w.keys = map[string]*nodesByValue{}
		for _, n := range w.selected {
			w.index(n)
		}
	}
	if k := w.keys[key]; k != nil {
		return k
	}
	return &nodesByValue{}
}

func (w *budget) index(n *Node) {
	for name, value := range n.Object.Labels {
		k := w.keys[name]
		if k == nil {
			k = &nodesByValue{values: map[string][]*Node{}}
			w.keys[name] = k
		}
		k.nodes = append(k.nodes, n)
		k.values[value] = append(k.values[value], n)
	}
}

// domainID is a value of a node label key.
type domainID struct{ key, value string }
