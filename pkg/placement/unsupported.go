package placement

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
)

// unsupported stands for a rule of upstream's that this version does not evaluate. It does
// not apply to a pod without a hard constraint of that kind; to one with, it answers no on
// every node and says so. Placing such a pod as if the rule did not exist would be wrong
// silently, refusing it is wrong aloud.
type unsupported struct {
	name  string
	needs func(obj *corev1.Pod) bool
	// existing, if not nil, tells whether a pod on a node could make the rule matter for
	// obj too.
	existing func(obj *corev1.Pod, other *state.Pod) bool
}

// unsupportedNames lists what newUnsupported knows.
func unsupportedNames() []string {
	return []string{
		PodTopologySpread, InterPodAffinity, VolumeBinding, VolumeRestrictions, NodeVolumeLimits,
		VolumeZone, DynamicResources, GangScheduling,
	}
}

// newUnsupported accepts any arguments: they are for rules that are not evaluated. The
// exception are the default spread constraints, which decide whether a pod needs the rule.
func newUnsupported(name string) factory {
	return func(args runtime.Object) (Plugin, error) {
		p := unsupported{name: name}
		switch name {
		case PodTopologySpread:
			a, err := argsOf[configv1.PodTopologySpreadArgs](args)
			if err != nil {
				return nil, err
			}
			byDefault := slices.ContainsFunc(a.DefaultConstraints, isHardSpread)
			p.needs = func(obj *corev1.Pod) bool { return needsSpread(obj, byDefault) }
		case InterPodAffinity:
			p.needs, p.existing = needsPodAffinity, mayBeRepelled
		case VolumeBinding, VolumeZone:
			p.needs = needsClaims
		case VolumeRestrictions, NodeVolumeLimits:
			p.needs = func(obj *corev1.Pod) bool { return needsClaims(obj) || needsDisks(obj) }
		case DynamicResources:
			p.needs = func(obj *corev1.Pod) bool { return len(obj.Spec.ResourceClaims) > 0 }
		case GangScheduling:
			p.needs = needsGang
		}
		return p, nil
	}
}

// Name implements Plugin.
func (p unsupported) Name() string { return p.name }

// Compile implements Plugin.
func (p unsupported) Compile(pod *state.Pod) (Compiled, error) {
	refuse := refusal{reason(fmt.Sprintf("node(s) cannot be checked: this version does not evaluate %s", p.name))}
	switch {
	case p.needs(pod.Object):
		return Compiled{Filter: refuse}, nil
	case p.existing != nil:
		return Compiled{Filter: watchful{refusal: refuse, obj: pod.Object, existing: p.existing}}, nil
	default:
		return Compiled{}, nil
	}
}

// Events implements Plugin. What could make a refused pod acceptable is another pod's going (or losing its
// labels); the pod's own constraints cannot change.
func (p unsupported) Events() []Event {
	if p.existing == nil {
		return nil
	}
	return []Event{{events.KindPod, Delete | UpdatePodLabel}}
}

// Hint implements Plugin.
func (p unsupported) Hint(pod *state.Pod, c Change) bool {
	return !p.needs(pod.Object) && (c.isOf(pod) || c.NewPod == nil && len(c.OldPod.RequiredAntiAffinity()) > 0)
}

// refusal is a filter that no node passes.
type refusal struct{ reason }

// Check implements Filter.
func (refusal) Check(*state.NodeInfo) Code { return UnschedulableAndUnresolvable }

// watchful is a refusal that depends on the pods in the cluster.
type watchful struct {
	refusal
	obj      *corev1.Pod
	existing func(obj *corev1.Pod, other *state.Pod) bool
}

// Survey implements ClusterFilter.
func (w watchful) Survey(all []*state.NodeInfo) Filter {
	for _, n := range all {
		for other := range n.AntiAffinityPods() {
			if w.existing(w.obj, other) {
				return w.refusal
			}
		}
	}
	return pass{}
}

// pass is a filter that every node passes.
type pass struct{}

// Check implements Filter.
func (pass) Check(*state.NodeInfo) Code { return Success }

// Explain implements Filter.
func (pass) Explain(*state.NodeInfo) []string { return nil }

func isHardSpread(c corev1.TopologySpreadConstraint) bool {
	return c.WhenUnsatisfiable == corev1.DoNotSchedule
}

// needsSpread: the profile's default constraints apply to pods without their own. (That
// they apply only to pods some service or owner selects is not looked at.)
func needsSpread(obj *corev1.Pod, byDefault bool) bool {
	own := obj.Spec.TopologySpreadConstraints
	return slices.ContainsFunc(own, isHardSpread) || len(own) == 0 && byDefault
}

func needsPodAffinity(obj *corev1.Pod) bool {
	a := obj.Spec.Affinity
	if a == nil {
		return false
	}
	return a.PodAffinity != nil && len(a.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0 ||
		a.PodAntiAffinity != nil && len(a.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution) > 0
}

// mayBeRepelled tells whether a pod that is placed could repel obj by its required
// anti-affinity. It errs towards yes: a namespace selector counts as matching, and where
// the topology lies is not looked at.
func mayBeRepelled(obj *corev1.Pod, other *state.Pod) bool {
	return slices.ContainsFunc(other.RequiredAntiAffinity(), func(t corev1.PodAffinityTerm) bool {
		inNamespace := t.NamespaceSelector != nil || slices.Contains(t.Namespaces, obj.Namespace) ||
			len(t.Namespaces) == 0 && other.Namespace == obj.Namespace
		if !inNamespace {
			return false
		}
		selector, err := metav1.LabelSelectorAsSelector(t.LabelSelector)
		return err != nil || selector.Matches(labels.Set(obj.Labels))
	})
}

func needsClaims(obj *corev1.Pod) bool {
	return slices.ContainsFunc(obj.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil || v.Ephemeral != nil
	})
}

// needsDisks: inline volumes that only one node, or so many per node, may use.
func needsDisks(obj *corev1.Pod) bool {
	return slices.ContainsFunc(obj.Spec.Volumes, func(v corev1.Volume) bool {
		return v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.RBD != nil || v.ISCSI != nil ||
			v.AzureDisk != nil || v.AzureFile != nil || v.Cinder != nil || v.VsphereVolume != nil ||
			v.PortworxVolume != nil
	})
}

func needsGang(obj *corev1.Pod) bool { return obj.Spec.SchedulingGroup != nil }
