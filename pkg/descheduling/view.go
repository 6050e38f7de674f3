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
type View struct {
	cluster Cluster
	now     time.Time
	// upstream counts what pods use in upstream's way.
	upstream bool
	// nodes holds all ready nodes, sorted by name; looked holds those of them that the policy selects (the selected
	// nodes).
	nodes, looked []*Node
	byName        map[string]*Node
	// places is looked as a list with an identity.
	places *nodeList

	// templates and sorts hold the same traits, by template and by content.
	templates map[*corev1.Pod]*traits
	sorts     map[string]*traits
	// owners is how many pods name an owner, by its UID and their namespace.
	owners      map[string]map[string]uint
	budgets     map[string][]labels.Selector
	work        work
	terms       map[*corev1.Pod][]antiAffinityTerm
	preferences preferences
}

// NewView makes the view of cluster at a time against which pods' ages are measured. Nodes that are not ready are
// left out with all pods on them, as are pods on unknown nodes; of the others those that match are selected.
func NewView(cluster Cluster, nodes labels.Selector, now time.Time) *View {
	v := &View{
		cluster: cluster, now: now, byName: map[string]*Node{},
		templates: map[*corev1.Pod]*traits{}, sorts: map[string]*traits{},
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
			node.at = len(v.looked)
			v.looked = append(v.looked, node)
		}
	}
	v.places, v.work.looked = &nodeList{v.looked}, v.looked
	v.preferences = newPreferences(v.looked)
	return v
}

// age returns the time since creation, which is in whole seconds; it is negative when the clocks disagree.
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
