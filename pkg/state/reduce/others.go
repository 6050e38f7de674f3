package reduce

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// reduceNode removes from a node what no decision reads. If that is not enough, the node is closed, and keeps what
// its pods take of it and the labels of its location. Images and long messages are removed in both cases: they
// restrict no pod.
func reduceNode(n *corev1.Node, note string, limit int) {
	all := n.DeepCopy()
	if reduceOther(n, note); fits(n, limit) {
		return
	}
	out := &corev1.Node{ObjectMeta: metaOf(all, note)}
	out.Annotations[strip.ClosedAnnotation] = ""
	out.Spec.Unschedulable = true
	out.Status.Phase, out.Status.Allocatable = all.Status.Phase, native(all.Status.Allocatable)
	out.Status.NodeInfo.KubeletVersion = cut(all.Status.NodeInfo.KubeletVersion)
	for _, c := range all.Status.Conditions {
		if c.Type == corev1.NodeReady {
			c.Reason, c.Message = cut(c.Reason), cut(c.Message)
			out.Status.Conditions = append(out.Status.Conditions, c)
		}
	}
	out = withParts(out, all, limit, partsThatNodesShow)
	out.Labels = keptLabels(out, all.Labels, limit)
	*n = *withParts(out, all, limit, partsOfNodes)
}

// partsThatNodesShow matter more than the labels do.
var partsThatNodesShow = []part[*corev1.Node]{
	func(to, from *corev1.Node) { to.Status.Allocatable = from.Status.Allocatable },
}

// partsOfNodes are parts of a node that matter less than the labels do, the most important first.
var partsOfNodes = []part[*corev1.Node]{
	func(to, from *corev1.Node) { to.Spec.Taints = from.Spec.Taints },
	func(to, from *corev1.Node) { to.Status.Conditions = from.Status.Conditions },
	func(to, from *corev1.Node) { to.Status.Capacity = from.Status.Capacity },
	func(to, from *corev1.Node) { to.Status.DeclaredFeatures = from.Status.DeclaredFeatures },
	func(to, from *corev1.Node) { to.Spec.ProviderID = from.Spec.ProviderID },
	func(to, from *corev1.Node) {
		keepAnnotations(to, from)
		to.Annotations[strip.ClosedAnnotation] = ""
	},
}

// reduceBudget keeps the selector, or selects the whole namespace if it has no room, with a status that allows no
// disruption. So more pods are protected than the budget's owner wanted, and none fewer.
func reduceBudget(b *policyv1.PodDisruptionBudget, note string, limit int) {
	selector := b.Spec.Selector
	*b = policyv1.PodDisruptionBudget{
		ObjectMeta: metaOf(b, note),
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: selector},
		Status:     policyv1.PodDisruptionBudgetStatus{ObservedGeneration: b.Status.ObservedGeneration},
	}
	if !fits(b, limit) {
		b.Spec.Selector = &metav1.LabelSelector{}
	}
}

// reduceDeviceClaim keeps the allocation, which counts on the node, and the pods that use it. The deletion
// timestamp keeps further pods from using the claim: whether they may is in the data that was cut.
func reduceDeviceClaim(c *resourcev1.ResourceClaim, note string) {
	allocation := c.Status.Allocation
	if allocation != nil {
		allocation = allocation.DeepCopy()
		allocation.Devices.Config = nil
	}
	*c = resourcev1.ResourceClaim{
		ObjectMeta: metaOf(c, note),
		Status:     resourcev1.ResourceClaimStatus{Allocation: allocation, ReservedFor: c.Status.ReservedFor},
	}
	if c.DeletionTimestamp == nil {
		c.DeletionTimestamp = &c.CreationTimestamp
	}
}

// reduceOther removes what no decision reads.
func reduceOther(obj state.APIObject, note string) {
	kept := metav1.ObjectMeta{Annotations: map[string]string{strip.TooLargeAnnotation: note}}
	keepAnnotations(&kept, obj)
	obj.SetAnnotations(kept.Annotations)
	obj.SetOwnerReferences(controller(obj))
	obj.SetFinalizers(nil)
	switch o := obj.(type) {
	case *corev1.Node:
		o.Status.Images = nil
		for i := range o.Status.Conditions {
			o.Status.Conditions[i].Message = cut(o.Status.Conditions[i].Message)
		}
	case *corev1.PersistentVolume: // its labels contain its zone
	case *corev1.Namespace:
		o.Status.Conditions = nil
	case *corev1.Service:
		o.Labels = nil
		o.Spec, o.Status = corev1.ServiceSpec{Selector: o.Spec.Selector}, corev1.ServiceStatus{}
	case *corev1.ReplicationController:
		o.Labels, o.Status.Conditions = nil, nil
	case *appsv1.ReplicaSet:
		o.Labels, o.Status.Conditions = nil, nil
	case *appsv1.StatefulSet:
		o.Labels, o.Status.Conditions = nil, nil
	case *schedulingv1.PriorityClass:
		o.Labels, o.Description = nil, ""
	case *storagev1.VolumeAttachment:
		o.Labels = nil
		o.Status = storagev1.VolumeAttachmentStatus{Attached: o.Status.Attached}
	default:
		obj.SetLabels(nil)
	}
}
