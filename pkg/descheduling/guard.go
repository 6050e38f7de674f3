package descheduling

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement/gang"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Guard is the DefaultEvictor of one profile during one run. (sigs.k8s.io/descheduler v0.36
// pkg/framework/plugins/defaultevictor.) Its answers do not depend on earlier answers, so any order of calls is
// possible; the checks themselves are in upstream's order because the first that applies is reported and counted.
type Guard struct {
	*policy.Evictor
	view     *View
	upstream bool
	// threshold is the priority from which on pods are protected, if thresholdSet. classMissing reports that the
	// policy names a priority class that does not exist.
	threshold                  int32
	thresholdSet, classMissing bool
	// targets holds the nodes that nodeFit may use; built when first needed.
	targets *nodeList
}

// newGuard resolves the priority class of the threshold once per run. A class that does not exist protects every
// pod (PriorityClassUnknown), because no priority can be compared with it.
func newGuard(e *policy.Evictor, v *View, upstream bool) *Guard {
	g := &Guard{Evictor: e, view: v, upstream: upstream}
	switch {
	case e.PriorityThreshold != nil:
		g.threshold, g.thresholdSet = *e.PriorityThreshold, true
	case e.PriorityClass != "":
		object, found := v.cluster.ObjectByName(events.KindPriorityClass, "", e.PriorityClass)
		class, ok := apiOf[*schedulingv1.PriorityClass](object, found)
		g.classMissing = !ok
		if ok {
			g.threshold, g.thresholdSet = class.Value, true
		}
	}
	return g
}

// apiOf returns the object of a fact as its API type.
func apiOf[T state.APIObject](o *state.Object, found bool) (T, bool) {
	if !found {
		var none T
		return none, false
	}
	obj, ok := o.API.(T)
	return obj, ok
}

// refuse returns the first protection that applies to the pod, in upstream's order.
func (g *Guard) refuse(pod *Pod) Refusal {
	if r := g.filter(pod); r != "" {
		return r
	}
	return g.preFilter(pod)
}

// filter is upstream's Filter. A terminating pod is refused whatever its annotations are: it leaves anyway.
// (Upstream requests another eviction for one with AnnotationEvict.)
func (g *Guard) filter(pod *Pod) Refusal {
	switch {
	case pod.Deleting && !(g.upstream && pod.Forced):
		return Terminating
	case pod.TooLarge():
		return TooLarge // its replacement would be too large as well, and would not be placed
	case pod.Node != nil && pod.Node.Closed():
		return NodeTooLarge // a violation there may be caused by what was cut
	case manyRules(pod):
		return TooManyRules
	case pod.Forced:
		return ""
	case pod.Reluctant && g.MandatoryNoEviction:
		return NoEviction
	case !g.upstream && g.inGang(pod):
		return GangMember
	case pod.Mirror:
		return Mirror
	case pod.Static:
		return Static
	default:
		return g.refuseByConstraint(pod)
	}
}

// inGang reports whether the pod is placed together with other pods (KEP-4671): without it, the others may be too few,
// and no place can be kept for its replacement. A pod of a group whose object is unknown counts as one. One that has
// ended is missed by no gang.
func (g *Guard) inGang(pod *Pod) bool {
	name := pod.PodGroup()
	if name == "" || pod.Terminal {
		return false
	}
	object, found := g.view.cluster.ObjectByName(events.KindPodGroup, pod.Namespace, name)
	group, ok := apiOf[*schedulingv1alpha2.PodGroup](object, found)
	return !ok || gang.New(group).Together()
}

// preFilter is upstream's PreEvictionFilter. Only in upstream's mode is a place searched for here; otherwise the
// Offer does it.
func (g *Guard) preFilter(pod *Pod) Refusal {
	if g.upstream && g.NodeFit != nil && *g.NodeFit && !g.fits(pod) {
		return FitsNowhere
	}
	if !g.NamespaceLabels.Empty() && !g.namespaceMatches(pod.Namespace) {
		return OtherNamespace
	}
	return ""
}

// refuseByConstraint applies the protections that the profile configures, in upstream's order.
func (g *Guard) refuseByConstraint(pod *Pod) Refusal {
	obj, p := pod.Template, g.Protect
	switch {
	case p.SystemCritical && priorityAtLeast(pod, policy.CriticalPriority):
		return SystemCritical
	case g.classMissing:
		return PriorityClassUnknown
	case g.thresholdSet && priorityAtLeast(pod, g.threshold):
		return AboveThreshold
	case len(obj.OwnerReferences) == 0 && (p.FailedBare || pod.Status().Phase != corev1.PodFailed):
		return Bare
	case p.LocalStorage && slices.ContainsFunc(obj.Spec.Volumes, isLocal):
		return LocalStorage
	case p.DaemonSet && slices.ContainsFunc(obj.OwnerReferences, isDaemonSet):
		return DaemonSet
	case p.PVC && g.usesProtectedClaim(pod):
		return VolumeClaims
	case p.WithoutPDB && !g.hasBudget(pod):
		return WithoutBudget
	case p.ResourceClaims && len(obj.Spec.ResourceClaims) > 0:
		return ResourceClaims
	case !g.Labels.Matches(labels.Set(obj.Labels)):
		return OtherLabels
	case g.fewReplicas(obj):
		return FewReplicas
	case g.tooYoung(pod):
		return TooYoung
	default:
		return ""
	}
}

// priorityAtLeast reports whether the pod's priority reaches the threshold. A pod without a priority is below every
// threshold.
func priorityAtLeast(pod *Pod, threshold int32) bool {
	priority, ok := pod.priority()
	return ok && priority >= threshold
}

// isLocal reports whether evicting the pod loses data of the volume: that of an emptyDir is deleted with the pod,
// and that of a hostPath stays behind on the node.
func isLocal(v corev1.Volume) bool { return v.HostPath != nil || v.EmptyDir != nil }

func isDaemonSet(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }

// usesProtectedClaim reports whether the pod uses a claim that protects it. If classes are named, a claim that is
// unknown, or whose class is not set yet, protects as well.
func (g *Guard) usesProtectedClaim(pod *Pod) bool {
	return slices.ContainsFunc(pod.spec().Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		if len(g.StorageClasses) == 0 {
			return true
		}
		name := v.PersistentVolumeClaim.ClaimName
		object, found := g.view.cluster.ObjectByName(events.KindVolumeClaim, pod.Namespace, name)
		claim, ok := apiOf[*corev1.PersistentVolumeClaim](object, found)
		if !ok || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
			return true
		}
		return slices.Contains(g.StorageClasses, *claim.Spec.StorageClassName)
	})
}

// hasBudget reports whether some disruption budget of the pod's namespace selects the pod.
func (g *Guard) hasBudget(pod *Pod) bool {
	return slices.ContainsFunc(g.view.budgetsIn(pod.Namespace), func(s labels.Selector) bool {
		return s.Matches(labels.Set(pod.Template.Labels))
	})
}

// budgetsIn returns the selectors of the disruption budgets of a namespace. An empty selector selects every pod of
// the namespace, a missing one none (policy/v1). One that cannot be parsed covers no pod; where a budget is
// required, that protects.
func (v *View) budgetsIn(namespace string) []labels.Selector {
	if v.budgets == nil {
		v.budgets = map[string][]labels.Selector{}
		for o := range v.cluster.Objects(events.KindDisruptionBudget) {
			budget, ok := apiOf[*policyv1.PodDisruptionBudget](o, true)
			if !ok {
				continue
			}
			if selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector); err == nil {
				v.budgets[o.Namespace] = append(v.budgets[o.Namespace], selector)
			}
		}
	}
	return v.budgets[namespace]
}

func (g *Guard) namespaceMatches(name string) bool {
	ns, ok := g.view.namespaceLabels(name)
	return ok && g.NamespaceLabels.Matches(labels.Set(ns))
}

// namespaceLabels returns the labels of a namespace; ok is false when it is unknown.
func (v *View) namespaceLabels(name string) (set map[string]string, ok bool) {
	object, found := v.cluster.ObjectByName(events.KindNamespace, "", name)
	ns, ok := apiOf[*corev1.Namespace](object, found)
	if !ok {
		return nil, false
	}
	return ns.Labels, true
}

// fewReplicas counts every pod of the pod's only owner, whatever its phase; with several owners, or none, nothing
// is counted. Upstream also counts pods of other namespaces that name the owner's UID.
func (g *Guard) fewReplicas(obj *corev1.Pod) bool {
	if g.MinReplicas < 2 || len(obj.OwnerReferences) != 1 {
		return false
	}
	namespace := obj.Namespace
	if g.upstream {
		namespace = ""
	}
	return g.view.replicas(namespace, string(obj.OwnerReferences[0].UID)) < g.MinReplicas
}

// tooYoung uses the start time that the kubelet wrote, as upstream does: this is the only place where the clock of
// another machine matters, and an error of that clock makes an eviction early or late, but never wrong.
func (g *Guard) tooYoung(pod *Pod) bool {
	if g.MinPodAge == nil {
		return false
	}
	start := pod.Object().Status.StartTime
	return start == nil || g.view.now.Sub(start.Time) < *g.MinPodAge
}

// fits reports whether some ready node of the guard's targets other than the pod's own can take the pod. Targets
// are ready nodes that match the evictor's node selector, whether or not the policy selects them for descheduling.
func (g *Guard) fits(pod *Pod) bool {
	if g.targets == nil {
		g.targets = &nodeList{slices.DeleteFunc(slices.Clone(g.view.nodes), func(n *Node) bool {
			return !g.TargetNodes.Matches(labels.Set(n.Object.Labels))
		})}
	}
	return g.view.fitsOther(pod, g.targets)
}
