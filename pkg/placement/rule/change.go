package rule

import (
	"maps"
	"reflect"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// Action is a set of ways in which an object changed, modelled on upstream's ActionType (framework/types.go in
// k8s.io/kube-scheduler). Its bits are in the order of actionNames.
type Action uint16

// The bits are upstream's names without their kind where that is clear. Their order is that of actionNames.
const (
	// Add means that the object appeared; for a pod, that it now occupies a node.
	Add Action = 1 << iota
	// Delete means that the object is gone; for a pod, also that it became terminal.
	Delete
	// UpdateNodeAllocatable means that a node's allocatable resources changed.
	UpdateNodeAllocatable
	// UpdateNodeLabel means that a node's labels changed.
	UpdateNodeLabel
	// UpdateNodeTaint means that a node's taints changed, or that spec.unschedulable was cleared.
	UpdateNodeTaint
	// UpdateNodeCondition means that the status of a node's condition changed.
	UpdateNodeCondition
	// UpdateNodeAnnotation means that a node's annotations changed.
	UpdateNodeAnnotation
	// UpdateNodeDeclaredFeature means that a node's declared features changed.
	UpdateNodeDeclaredFeature
	// UpdatePodLabel means that a pod's labels changed.
	UpdatePodLabel
	// UpdatePodScaleDown means that a pod requests less of a resource.
	UpdatePodScaleDown
	// UpdatePodToleration means that a pod has more tolerations.
	UpdatePodToleration
	// UpdatePodGatesEliminated means that a pod's last scheduling gate was removed.
	UpdatePodGatesEliminated
	// UpdateOther means that something else about a pod changed, or anything about a volume, a device, or the
	// objects that provide them.
	UpdateOther
	// UpdateNamespaceLabel means that a namespace's labels changed.
	UpdateNamespaceLabel
	// UpdateBudget means that a disruption budget may now allow evictions that it did not allow before.
	UpdateBudget
	// UpdatePodGeneratedClaim means that a pod's status names other device claims.
	UpdatePodGeneratedClaim

	// Update is any change of an object that existed before and still exists.
	Update = UpdateNodeAllocatable | UpdateNodeLabel | UpdateNodeTaint | UpdateNodeCondition |
		UpdateNodeAnnotation | UpdateNodeDeclaredFeature | UpdatePodLabel | UpdatePodScaleDown |
		UpdatePodToleration | UpdatePodGatesEliminated | UpdateOther | UpdateNamespaceLabel | UpdateBudget |
		UpdatePodGeneratedClaim
)

// Event is a kind of change that could turn a rule's rejection into a pass.
type Event struct {
	Kind    events.Kind
	Actions Action
}

// Change is one change of the cluster, classified by how it affects rules. Old is nil for Add, New for Delete; only
// the fields of the Kind are set. No Actions means that nothing changed that could matter to a waiting pod.
type Change struct {
	Kind             events.Kind
	Actions          Action
	OldPod, NewPod   *state.Pod
	OldNode, NewNode *state.Node
	// OldObject and NewObject are set for the kinds without fields of their own.
	OldObject, NewObject *state.Object
	// Objects holds the other objects of the cluster after the change, as in Input. It is nil when they are not
	// available; the rules then wake too many pods rather than too few.
	Objects Objects
}

// Changes classifies the result of an Apply, in its order, and leaves out changes that matter to no rule.
func Changes(c state.Changes) []Change {
	list := make([]Change, 0, len(c.Pods)+len(c.Nodes))
	for _, o := range c.Others {
		list = append(list, ObjectChange(o))
	}
	for _, n := range c.Nodes {
		list = append(list, NodeChange(n))
	}
	for _, p := range c.Pods {
		list = append(list, PodChange(p))
	}
	return slices.DeleteFunc(list, func(c Change) bool { return c.Actions == 0 })
}

// PodChange classifies one change of a pod. Source: pkg/scheduler/framework/events.go
// PodSchedulingPropertiesChange, and eventhandlers.go for what counts as assigned.
func PodChange(c state.PodChange) Change {
	change := Change{Kind: events.KindPod, OldPod: c.Before, NewPod: c.After}
	switch {
	case c.After == nil || c.After.Terminal:
		if c.Before != nil && !c.Before.Terminal {
			change.Actions, change.NewPod = Delete, nil
		}
	case c.Before == nil || c.Before.Terminal:
		if c.After.Occupies() {
			change.Actions, change.OldPod = Add, nil
		}
	case !c.Before.Occupies() && c.After.Occupies():
		change.Actions, change.OldPod = Add, nil
	default:
		change.Actions = podUpdate(c.Before, c.After)
	}
	return change
}

// podUpdate returns what about a pod changed. UpdateOther stands for everything that no other action names.
func podUpdate(before, after *state.Pod) Action {
	var a Action
	if !maps.Equal(before.Template.Labels, after.Template.Labels) {
		a |= UpdatePodLabel
	}
	if scaledDown(before.Requests, after.Requests) {
		a |= UpdatePodScaleDown
	}
	// Tolerations can only be added, so comparing their number is enough.
	if len(before.Template.Spec.Tolerations) != len(after.Template.Spec.Tolerations) {
		a |= UpdatePodToleration
	}
	if HasDeviceClaims(&after.Template.Spec) && !equality.Semantic.DeepEqual(
		before.Status().ResourceClaimStatuses, after.Status().ResourceClaimStatuses) {
		a |= UpdatePodGeneratedClaim
	}
	if before.Gated && !after.Gated {
		a |= UpdatePodGatesEliminated
	}
	if a == 0 {
		a = UpdateOther
	}
	return a
}

// scaledDown reports whether any resource decreased.
func scaledDown(before, after resources.Resources) bool {
	for name, v := range before.Map() {
		if after.Get(name) < v {
			return true
		}
	}
	return false
}

// NodeChange classifies one change of a node. Source: pkg/scheduler/framework/events.go
// NodeSchedulingPropertiesChange.
func NodeChange(c state.NodeChange) Change {
	change := Change{Kind: events.KindNode, OldNode: c.Before, NewNode: c.After}
	switch {
	case c.After == nil:
		change.Actions = Delete
	case c.Before == nil:
		change.Actions = Add
	default:
		change.Actions = nodeUpdate(c.Before, c.After)
	}
	return change
}

// nodeUpdate returns what about a node changed; 0 for a change that no rule reads, such as a heartbeat.
func nodeUpdate(before, after *state.Node) Action {
	var a Action
	set := func(changed bool, action Action) {
		if changed {
			a |= action
		}
	}
	old, now := before.Object, after.Object
	set(!before.Allocatable.Equal(after.Allocatable), UpdateNodeAllocatable)
	set(!maps.Equal(old.Labels, now.Labels), UpdateNodeLabel)
	set(!equality.Semantic.DeepEqual(old.Spec.Taints, now.Spec.Taints), UpdateNodeTaint)
	set(old.Spec.Unschedulable && !now.Spec.Unschedulable || before.Closed() && !after.Closed(), UpdateNodeTaint)
	set(!reflect.DeepEqual(conditions(old), conditions(now)), UpdateNodeCondition)
	set(!maps.Equal(old.Annotations, now.Annotations), UpdateNodeAnnotation)
	set(!slices.Equal(old.Status.DeclaredFeatures, now.Status.DeclaredFeatures), UpdateNodeDeclaredFeature)
	return a
}

// conditions returns the status of each condition, without its times: heartbeats must not wake pods.
func conditions(n *corev1.Node) map[corev1.NodeConditionType]corev1.ConditionStatus {
	m := make(map[corev1.NodeConditionType]corev1.ConditionStatus, len(n.Status.Conditions))
	for _, c := range n.Status.Conditions {
		m[c.Type] = c.Status
	}
	return m
}

// IsOf reports whether the change is an update of this very pod.
func (c Change) IsOf(pod *state.Pod) bool { return c.NewPod != nil && c.NewPod.UID == pod.UID }

// HeldPlace reports whether a deleted pod was bound or nominated to a node.
func HeldPlace(pod *state.Pod) bool {
	return pod.NodeName != "" || pod.Status().NominatedNodeName != ""
}

// HasDeviceClaims reports whether the pod names device claims. Most pods name none.
func HasDeviceClaims(spec *corev1.PodSpec) bool { return len(spec.ResourceClaims) > 0 }
