package rule

import (
	"iter"

	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Interest describes what a rule's hints depend on for one waiting pod, for all changes other than changes of
// that pod. It allows the queue to index many pods by what could wake them: hints are evaluated once for all pods
// of a class, and only for changes within reach.
//
// Example: ten thousand pods wait, each for its own volume claim. Without reach, every claim that is created
// would be compared with every pod. With the topic "claim ns/name", one look-up finds the pod that waits for it.
type Interest struct {
	// Class is the same for pods that get the same hint about every change.
	Class string
	// Pods, Nodes and Claims are the changes of pods, nodes and device claims for which Hint can report true.
	// Changes of other kinds are always within reach, and so are those of claims without Change.Objects.
	Pods, Nodes, Claims Reach
}

// Reach is a set of changes. The zero value holds none.
type Reach struct {
	// All means that every change is in the set; otherwise it holds the changes about one of Topics.
	All bool
	// Topics are values returned by Change.Topics.
	Topics []string
}

// Everything is the set of all changes.
var Everything = Reach{All: true}

// Classifier is a Plugin that knows which pods its hints treat alike. For other plugins, pods are alike when their
// specs are.
type Classifier interface {
	Interest(pod *state.Pod) Interest
}

// Is reports whether the change is of a kind of event.
func (c Change) Is(e Event) bool { return e.Kind == c.Kind && e.Actions&c.Actions != 0 }

// Topics of changes. Those of a node change are its name, its current labels, the label keys that were added,
// removed or changed their value, and whether the node is new. Those of a pod change are its namespace, and
// whether the pod is gone and may have repelled others. Those of a device claim change identify the claim, its
// owner if it is new, and whether devices have become free. Topics that end in a space or "of " are followed by a
// name.
const (
	TopicName     = "name "
	TopicLabel    = "label "
	TopicKey      = "key "
	TopicNewNode  = "new node"
	TopicIn       = "in "
	TopicRepelled = "repelled"
	TopicClaim    = "claim "
	TopicOwner    = "claim of "
	TopicFreed    = "devices"
)

// Topics returns the topics of a change of a pod, a node or a device claim, for Reach; nil for other kinds.
func (c Change) Topics() []string {
	switch {
	case c.Kind == events.KindPod:
		return c.podTopics()
	case c.Kind == events.KindNode && c.NewNode != nil:
		return c.nodeTopics()
	case c.Kind == events.KindResourceClaim && c.NewObject != nil:
		return c.claimTopics()
	}
	return nil
}

// podTopics returns the namespaces before and after the change, and TopicRepelled for a deleted pod with terms.
func (c Change) podTopics() []string {
	var list []string
	for _, p := range []*state.Pod{c.OldPod, c.NewPod} {
		if p != nil && (len(list) == 0 || p != c.NewPod || p.Namespace != c.OldPod.Namespace) {
			list = append(list, TopicIn+p.Namespace)
		}
	}
	if c.NewPod == nil && c.OldPod != nil && c.OldPod.Terms != nil {
		list = append(list, TopicRepelled)
	}
	return list
}

// nodeTopics returns TopicName, a TopicLabel for every label that the node now has, and a TopicKey for every
// label that changed. A change of a node without labels that concern a pod has no topic of that pod.
func (c Change) nodeTopics() []string {
	now := c.NewNode.Object.Labels
	list := make([]string, 0, 2*len(now)+2)
	list = append(list, TopicName+c.NewNode.Name)
	var before map[string]string
	if c.OldNode == nil {
		list = append(list, TopicNewNode)
	} else {
		before = c.OldNode.Object.Labels
	}
	for key, value := range now {
		list = append(list, TopicLabel+key+"="+value)
		if was, ok := before[key]; !ok || was != value {
			list = append(list, TopicKey+key)
		}
	}
	for key := range before {
		if _, ok := now[key]; !ok {
			list = append(list, TopicKey+key)
		}
	}
	return list
}

// Label returns upstream's name of the event, as in its metrics (ClusterEvent.Label in
// k8s.io/kube-scheduler/framework). A change with several actions has the name of the first.
func (c Change) Label() string {
	switch c.Kind {
	case events.KindPod:
		p := c.NewPod
		if p == nil {
			p = c.OldPod
		}
		if p != nil && HeldPlace(p) {
			return "AssignedPod" + c.Actions.String()
		}
		return "UnschedulablePod" + c.Actions.String()
	case events.KindNode:
		return "Node" + c.Actions.String()
	case events.KindNamespace:
		return "Namespace" + c.Actions.String()
	case events.KindPodGroup:
		return groupEvents + c.Actions.String()
	default:
		if name, ok := supplyNames[c.Kind]; ok {
			return name + c.Actions.String()
		}
		return string(c.Kind) + c.Actions.String()
	}
}

// actionNames are upstream's names, in the order of the bits.
var actionNames = []string{
	"Add", "Delete", "UpdateNodeAllocatable", "UpdateNodeLabel", "UpdateNodeTaint", "UpdateNodeCondition",
	"UpdateNodeAnnotation", "UpdateNodeDeclaredFeature", "UpdatePodLabel", "UpdatePodScaleDown",
	"UpdatePodToleration", "UpdatePodSchedulingGatesEliminated", "Update", "UpdateNamespaceLabel", "Update",
	"UpdatePodGeneratedResourceClaim",
}

// Each yields the actions of the set one by one.
func (a Action) Each() iter.Seq[Action] {
	return func(yield func(Action) bool) {
		for i := range actionNames {
			if one := Action(1 << i); a&one != 0 && !yield(one) {
				return
			}
		}
	}
}

// String returns upstream's name of the first action in the set; empty for none.
func (a Action) String() string {
	for i, name := range actionNames {
		if a&(1<<i) != 0 {
			return name
		}
	}
	return ""
}

// claimTopics returns the topics of a change of a device claim.
func (c Change) claimTopics() []string {
	list := []string{TopicClaim + c.NewObject.Namespace + "/" + c.NewObject.Name}
	now, ok := c.NewObject.API.(*resourcev1.ResourceClaim)
	if !ok {
		return append(list, TopicFreed) // unknown content may concern every pod
	}
	if c.OldObject == nil {
		if owner := metav1.GetControllerOfNoCopy(now); owner != nil {
			list = append(list, TopicOwner+string(owner.UID))
		}
		return list
	}
	if AllocationOf(c.OldObject) != nil && now.Status.Allocation == nil {
		list = append(list, TopicFreed)
	}
	return list
}

// AllocationOf returns the devices that an object, a claim, has; nil for none.
func AllocationOf(o *state.Object) *resourcev1.AllocationResult {
	if o == nil {
		return nil
	}
	claim, ok := o.API.(*resourcev1.ResourceClaim)
	if !ok {
		return nil
	}
	return claim.Status.Allocation
}
