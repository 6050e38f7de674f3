package descheduling

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Pod is a pod with the properties that strategies read repeatedly. Pods belong to one View; two views of the same
// cluster have different Pods, so pointers are identities within one run only.
type Pod struct {
	*state.Pod
	// Node is the node that the pod is on; it is in the same View.
	Node *Node
	// Forced reports AnnotationEvict, Reluctant AnnotationNoEviction.
	Forced, Reluctant bool
	// Mirror and Static report the kubelet's own pods: Mirror by the annotation of the API server's copy, Static by
	// a source other than the API server.
	Mirror, Static bool

	// ByRequest and InProgress report what AnnotationRequestEvictOnly and AnnotationEvictionInProgress of package state
	// say: see state.Pod.EvictionRequest.
	ByRequest, InProgress bool

	// accepted reports that its eviction has been accepted in this run, or requested in an earlier one.
	accepted bool
}

// Node is a ready node with the pods on it.
type Node struct {
	*state.Node
	// Pods is sorted by priority (low first), then namespace, name and UID; terminal pods are included.
	Pods []*Pod

	at   int    // its position among the selected nodes
	used *usage // what its running pods request; computed when first needed
}

// newPod reads the annotations once. Strategies ask about the same pod many times, and every read of an annotation
// decodes the pod's packed data (state.Pod.EachAnnotation).
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
		case state.AnnotationRequestEvictOnly:
			pod.ByRequest = true
		case state.AnnotationEvictionInProgress:
			pod.InProgress = true
		}
	})
	pod.InProgress = pod.InProgress && pod.ByRequest
	return pod
}

// comparePods is the order of pods on a node, total because UIDs differ. A pod without a priority counts as one
// with 0.
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

// priority returns the pod's own priority; ok is false when it has none. Admission sets one on every pod of a real
// cluster, and Pod.Priority would be 0 for the others, which is a valid priority.
func (p *Pod) priority() (value int32, ok bool) {
	if own := p.spec().Priority; own != nil {
		return *own, true
	}
	return 0, false
}

// ownedBy reports whether one of the owners is of one of the kinds. Kinds are compared without their API group, as
// upstream does.
func ownedBy(owners []metav1.OwnerReference, kinds []string) bool {
	return slices.ContainsFunc(owners, func(o metav1.OwnerReference) bool { return slices.Contains(kinds, o.Kind) })
}

// usage is the sum over the pods of a node that are not terminal, as they are before the run: moves that the run
// accepts do not change it. The landing search of package plan knows of them.
type usage struct {
	// amounts is by resource name; cpu in milli, everything else in whole units. pods counts the pods.
	amounts map[corev1.ResourceName]int64
	pods    int64
	// free is the free amount of each resource of the node, and of the basic ones; for the resource pods, how many
	// more pods the node can take. It is negative where more is requested than allocatable.
	free map[corev1.ResourceName]int64
}

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
