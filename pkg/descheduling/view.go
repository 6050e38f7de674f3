package descheduling

import (
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Cluster is the part of the cluster's state that a run reads; *state.Snapshot is one.
type Cluster interface {
	Nodes() iter.Seq[*state.Node]
	PodsOnNode(name string) iter.Seq[*state.Pod]
	Pods() iter.Seq[*state.Pod]
	Objects(k events.Kind) iter.Seq[*state.Object]
	ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool)
}

// View is the cluster as one run sees it. It is made for one run and is not safe for concurrent use; what it points
// to is shared and must not be changed.
//
// Its maps are caches, filled when first needed, whose keys are templates or the content that matters. A cluster
// has many pods and few templates, so most questions about a pod are answered for its template once. NewView itself
// costs a sort of the pods of each node.
type View struct {
	cluster Cluster
	now     time.Time
	// upstream counts what pods use in upstream's way.
	upstream bool
	// nodes holds all ready nodes, sorted by name; selected holds those of them that match the policy's node
	// selector. Strategies pick only from the selected nodes; replacements may land on others if nodeFit's own
	// selector allows.
	nodes, selected []*Node
	byName          map[string]*Node
	// allSelected is selected as a list with an identity, so that results about it can be cached.
	allSelected *nodeList

	// traitsByTemplate and traitsByKey hold the same traits, by template and by content: templates that differ only
	// in labels share traits.
	traitsByTemplate map[*corev1.Pod]*traits
	traitsByKey      map[string]*traits
	// owners is how many pods name an owner, by its UID and their namespace. budgets holds the selectors of
	// disruption budgets by namespace. terms holds required anti-affinity terms as upstream reads them, by
	// template.
	owners      map[string]map[string]uint
	budgets     map[string][]labels.Selector
	budget      budget
	terms       map[*corev1.Pod][]antiAffinityTerm
	preferences preferences
}

// NewView makes the view of cluster at a time against which pods' ages are measured. Nodes that are not ready are
// left out with all pods on them, as are pods on unknown nodes; of the others those that match are selected.
func NewView(cluster Cluster, nodes labels.Selector, now time.Time) *View {
	v := &View{
		cluster: cluster, now: now, byName: map[string]*Node{},
		traitsByTemplate: map[*corev1.Pod]*traits{}, traitsByKey: map[string]*traits{},
		terms: map[*corev1.Pod][]antiAffinityTerm{},
	}
	for n := range cluster.Nodes() {
		if !Ready(n.Object) {
			continue
		}
		node := &Node{Node: n}
		for p := range cluster.PodsOnNode(n.Name) {
			node.Pods = append(node.Pods, newPod(p, node))
		}
		slices.SortFunc(node.Pods, comparePods)
		v.nodes, v.byName[n.Name] = append(v.nodes, node), node
		if nodes.Matches(labels.Set(n.Object.Labels)) {
			node.at = len(v.selected)
			v.selected = append(v.selected, node)
		}
	}
	v.allSelected, v.budget.selected = &nodeList{v.selected}, v.selected
	v.preferences = newPreferences(v.selected)
	return v
}

// age returns the time since creation. Creation times are in whole seconds and come from the API server's clock, so
// the age is negative when that clock is ahead.
func (v *View) age(p *Pod) time.Duration { return v.now.Sub(p.Created().Time) }

// replicas counts every pod of an owner in a namespace, whatever its phase, on nodes or not; without a namespace,
// those in all namespaces that name its UID. For a pod with more owners than maxOwners, the further ones do not
// count.
func (v *View) replicas(namespace, owner string) (n uint) {
	if v.owners == nil {
		v.owners = map[string]map[string]uint{}
		for p := range v.cluster.Pods() {
			v.countOwners(p)
		}
	}
	if namespace != "" {
		return v.owners[owner][namespace]
	}
	for _, pods := range v.owners[owner] {
		n += pods
	}
	return n
}

// countOwners counts one pod for each of its owner references.
func (v *View) countOwners(p *state.Pod) {
	refs := p.Template.OwnerReferences
	for i := range refs[:min(len(refs), maxOwners)] {
		uid := string(refs[i].UID)
		if v.owners[uid] == nil {
			v.owners[uid] = map[string]uint{}
		}
		v.owners[uid][p.Namespace]++
	}
}
