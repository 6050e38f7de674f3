package descheduling

import (
	"cmp"
	"iter"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Annotations that users set on pods (sigs.k8s.io/descheduler), and the one from which the kubelet's source of a
// pod is known.
const (
	// AnnotationEvict, with any value, lifts the protections of the evictor, except those for terminating pods, for
	// pods and nodes too large for the log, for too many rules, and by namespace labels.
	AnnotationEvict = "descheduler.alpha.kubernetes.io/evict"
	// AnnotationNoEviction makes a pod one of the last to be evicted, or protects it when the policy makes the
	// annotation mandatory.
	AnnotationNoEviction = "descheduler.alpha.kubernetes.io/prefer-no-eviction"

	annotationSource = "kubernetes.io/config.source"
	sourceAPI        = "api"
)

// maxOwners is how many owner references of one pod are considered. Kubernetes sets no limit, and each costs
// memory. A pod has one controller, and rarely another owner.
const maxOwners = 16

// maxOwnerUID is the largest length of an owner's UID in bytes: the log cuts a longer one, so that past evictions
// could not be attributed to the owner. UIDs of real objects have 36.
const maxOwnerUID = 1 << 10

// Cluster is the part of the cluster's state that a run reads; *state.Snapshot is one.
type Cluster interface {
	Nodes() iter.Seq[*state.Node]
	PodsOnNode(name string) iter.Seq[*state.Pod]
	Pods() iter.Seq[*state.Pod]
	Objects(k events.Kind) iter.Seq[*state.Object]
	ObjectByName(k events.Kind, namespace, name string) (*state.Object, bool)
}

// Pod is a pod with the properties that strategies read repeatedly.
type Pod struct {
	*state.Pod
	Node *Node
	// Forced reports AnnotationEvict, Reluctant AnnotationNoEviction.
	Forced, Reluctant bool
	// Mirror and Static report the kubelet's own pods.
	Mirror, Static bool

	// accepted reports that its eviction has been accepted in this run, or requested in an earlier one.
	accepted bool
}

// Node is a node with the pods on it.
type Node struct {
	*state.Node
	// Pods is sorted by priority (low first), then namespace, name and UID; terminal pods are included.
	Pods []*Pod

	at   int    // its position among the selected nodes
	used *usage // what its running pods request; computed when first needed
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
	owners  map[string]map[string]uint
	budgets map[string][]labels.Selector
	work    work
	terms   map[*corev1.Pod][]antiAffinityTerm
	// wishes and wanted hold the same wishes, by content and by template.
	wishes map[string]*wish
	wanted map[*corev1.Pod]*wish
}

// NewView makes the view of cluster at a time against which pods' ages are measured. Nodes that are not ready are
// left out with all pods on them, as are pods on unknown nodes; of the others those that match are selected.
func NewView(cluster Cluster, nodes labels.Selector, now time.Time) *View {
	v := &View{
		cluster: cluster, now: now, byName: map[string]*Node{},
		templates: map[*corev1.Pod]*traits{}, sorts: map[string]*traits{},
		terms: map[*corev1.Pod][]antiAffinityTerm{}, wishes: map[string]*wish{}, wanted: map[*corev1.Pod]*wish{},
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
	v.places = &nodeList{v.looked}
	return v
}

func newPod(p *state.Pod, n *Node) *Pod {
	pod := &Pod{Pod: p, Node: n}
	p.EachAnnotation(func(name, value string) {
		switch name {
		case AnnotationEvict:
			pod.Forced = true
		case AnnotationNoEviction:
			pod.Reluctant = true
		case corev1.MirrorPodAnnotationKey:
			pod.Mirror = true
		case annotationSource:
			pod.Static = value != sourceAPI
		}
	})
	return pod
}

// comparePods is the order of pods on a node. A pod without a priority counts as one with 0.
func comparePods(a, b *Pod) int {
	return cmp.Or(
		cmp.Compare(a.Priority, b.Priority),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
		cmp.Compare(a.UID, b.UID),
	)
}

// Ready reports whether the pods of a node are considered. A node without a ready condition counts as ready
// (upstream's nodeutil.IsReady).
func Ready(n *corev1.Node) bool {
	return !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status != corev1.ConditionTrue
	})
}

// spec returns what the pod shares with others of its template.
func (p *Pod) spec() *corev1.PodSpec { return &p.Template.Spec }

// priority returns the pod's own priority; ok is false when it has none.
func (p *Pod) priority() (value int32, ok bool) {
	if own := p.spec().Priority; own != nil {
		return *own, true
	}
	return 0, false
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
