package decide

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/descheduler/policy"
)

// Annotations that users put on pods (sigs.k8s.io/descheduler).
const (
	// annotationEvict, with any value, lifts every protection of the evictor.
	annotationEvict = "descheduler.alpha.kubernetes.io/evict"
	// annotationNoEviction protects a pod when the policy makes it mandatory.
	annotationNoEviction = "descheduler.alpha.kubernetes.io/prefer-no-eviction"
	// annotationSource is where the kubelet got a pod from; static unless "api".
	annotationSource = "kubernetes.io/config.source"
	sourceAPI        = "api"
)

// guard is the DefaultEvictor of one profile during one cycle.
type guard struct {
	*policy.Evictor
	cycle *cycle
	// threshold is the priority from which on pods are protected, when thresholdSet.
	// classMissing: the policy names a priority class that does not exist.
	threshold                  int32
	thresholdSet, classMissing bool
	// unusable maps nodes that nodeFit may not use, by UID, to why; made when first needed.
	unusable map[string]string
}

func (c *cycle) newGuard(e *policy.Evictor) *guard {
	g := &guard{Evictor: e, cycle: c}
	switch {
	case e.PriorityThreshold != nil:
		g.threshold, g.thresholdSet = *e.PriorityThreshold, true
	case e.PriorityClass != "":
		object, found := c.Cluster.ObjectByName(events.KindPriorityClass, "", e.PriorityClass)
		class, ok := apiOf[*schedulingv1.PriorityClass](object, found)
		g.classMissing = !ok
		if ok {
			g.threshold, g.thresholdSet = class.Value, true
		}
	}
	return g
}

// apiOf returns the object behind a fact in its own type.
func apiOf[T state.APIObject](o *state.Object, found bool) (T, bool) {
	if !found {
		var none T
		return none, false
	}
	obj, ok := o.API.(T)
	return obj, ok
}

// refuse returns the first protection that holds for the pod, in upstream's order, room on
// other nodes aside (see fits). A terminating pod is refused before annotations are looked
// at: it goes anyway.
func (g *guard) refuse(pod *state.Pod) Refusal {
	if pod.Deleting {
		return Terminating
	}
	obj := pod.Object()
	if _, forced := obj.Annotations[annotationEvict]; !forced {
		if r := g.refuseByKind(obj); r != "" {
			return r
		}
		if r := g.refuseByConstraint(pod); r != "" {
			return r
		}
	}
	if !g.NamespaceLabels.Empty() && !g.namespaceMatches(pod.Namespace) {
		return OtherNamespace
	}
	return ""
}

func (g *guard) refuseByKind(obj *corev1.Pod) Refusal {
	if _, marked := obj.Annotations[annotationNoEviction]; marked && g.MandatoryNoEviction {
		return NoEviction
	}
	if _, mirror := obj.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return Mirror
	}
	if source, known := obj.Annotations[annotationSource]; known && source != sourceAPI {
		return Static
	}
	return ""
}

func (g *guard) refuseByConstraint(pod *state.Pod) Refusal {
	obj, p := pod.Object(), g.Protect
	switch {
	case p.SystemCritical && priorityAtLeast(obj, policy.CriticalPriority):
		return SystemCritical
	case g.classMissing:
		return PriorityClassUnknown
	case g.thresholdSet && priorityAtLeast(obj, g.threshold):
		return AboveThreshold
	case len(obj.OwnerReferences) == 0 && (p.FailedBare || obj.Status.Phase != corev1.PodFailed):
		return Bare
	case p.LocalStorage && slices.ContainsFunc(obj.Spec.Volumes, isLocal):
		return LocalStorage
	case p.DaemonSet && slices.ContainsFunc(obj.OwnerReferences, isDaemonSet):
		return DaemonSet
	case p.PVC && g.usesProtectedClaim(obj):
		return VolumeClaims
	case p.WithoutPDB && !g.hasBudget(obj):
		return WithoutBudget
	case p.ResourceClaims && len(obj.Spec.ResourceClaims) > 0:
		return ResourceClaims
	case !g.Labels.Matches(labels.Set(obj.Labels)):
		return OtherLabels
	case g.fewReplicas(obj):
		return FewReplicas
	case g.tooYoung(obj):
		return TooYoung
	default:
		return ""
	}
}

// priorityAtLeast: a pod without a priority is below every threshold.
func priorityAtLeast(obj *corev1.Pod, threshold int32) bool {
	return obj.Spec.Priority != nil && *obj.Spec.Priority >= threshold
}

func isLocal(v corev1.Volume) bool { return v.HostPath != nil || v.EmptyDir != nil }

func isDaemonSet(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }

// usesProtectedClaim: with classes named, a claim that is unknown, or whose class is not
// settled yet, protects as well.
func (g *guard) usesProtectedClaim(obj *corev1.Pod) bool {
	return slices.ContainsFunc(obj.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil {
			return false
		}
		if len(g.StorageClasses) == 0 {
			return true
		}
		name := v.PersistentVolumeClaim.ClaimName
		object, found := g.cycle.Cluster.ObjectByName(events.KindVolumeClaim, obj.Namespace, name)
		claim, ok := apiOf[*corev1.PersistentVolumeClaim](object, found)
		if !ok || claim.Spec.StorageClassName == nil || *claim.Spec.StorageClassName == "" {
			return true
		}
		return slices.Contains(g.StorageClasses, *claim.Spec.StorageClassName)
	})
}

// hasBudget: an empty selector selects every pod of the namespace, a missing one none
// (policy/v1); one that cannot be read covers nothing, which protects.
func (g *guard) hasBudget(obj *corev1.Pod) bool {
	for o := range g.cycle.Cluster.Objects(events.KindDisruptionBudget) {
		budget, ok := apiOf[*policyv1.PodDisruptionBudget](o, true)
		if !ok || o.Namespace != obj.Namespace {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
		if err == nil && selector.Matches(labels.Set(obj.Labels)) {
			return true
		}
	}
	return false
}

func (g *guard) namespaceMatches(name string) bool {
	object, found := g.cycle.Cluster.ObjectByName(events.KindNamespace, "", name)
	ns, ok := apiOf[*corev1.Namespace](object, found)
	return ok && g.NamespaceLabels.Matches(labels.Set(ns.Labels))
}

// fewReplicas counts every pod of the pod's only owner, whatever its phase; with several
// owners, or none, there is nothing to count.
func (g *guard) fewReplicas(obj *corev1.Pod) bool {
	if g.MinReplicas < 2 || len(obj.OwnerReferences) != 1 {
		return false
	}
	return g.cycle.replicas(string(obj.OwnerReferences[0].UID)) < g.MinReplicas
}

func (c *cycle) replicas(owner string) uint {
	if c.owners == nil {
		c.owners = map[string]uint{}
		for p := range c.Cluster.Pods() {
			for _, o := range p.Template.OwnerReferences {
				c.owners[string(o.UID)]++
			}
		}
	}
	return c.owners[owner]
}

// tooYoung goes by the start time that the kubelet wrote, as upstream does: it is the one
// place where the clock of another machine counts, and an error of theirs is an early or
// late eviction, never a wrong one.
func (g *guard) tooYoung(obj *corev1.Pod) bool {
	if g.MinPodAge == nil {
		return false
	}
	start := obj.Status.StartTime
	return start == nil || g.cycle.Now.Sub(start.Time) < *g.MinPodAge
}
