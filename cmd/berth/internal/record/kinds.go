package record

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/audit/strip"
)

// kinds returns the kinds that the audit uses. The first is the cheapest to list, as marks read the resourceVersion by
// it. Claims to devices and PodGroups are left out where the API server does not serve them.
func kinds(api kubernetes.Interface) []kind {
	core, everywhere := api.CoreV1(), metav1.NamespaceAll
	// Each kind is reduced to what the rules of package audit read.
	all := []kind{
		kindOf(recording.KindNamespace, core.Namespaces(), func(n *corev1.Namespace, o *recording.Object) {
			o.Namespace = strip.Namespace(n)
		}),
		kindOf(recording.KindNode, core.Nodes(), func(n *corev1.Node, o *recording.Object) {
			o.Node = strip.Node(n)
		}),
		kindOf(recording.KindPod, core.Pods(everywhere), func(p *corev1.Pod, o *recording.Object) {
			o.Pod = strip.Pod(p)
		}),
		kindOf(recording.KindBudget, api.PolicyV1().PodDisruptionBudgets(everywhere),
			func(b *policyv1.PodDisruptionBudget, o *recording.Object) { o.Budget = strip.Budget(b) }),
		kindOf(recording.KindVolumeClaim, core.PersistentVolumeClaims(everywhere),
			func(c *corev1.PersistentVolumeClaim, o *recording.Object) { o.Claim = strip.VolumeClaim(c) }),
		kindOf(recording.KindVolume, core.PersistentVolumes(), func(v *corev1.PersistentVolume, o *recording.Object) {
			o.Volume = strip.Volume(v)
		}),
	}
	if serves(api, resourcev1.SchemeGroupVersion.String()) {
		all = append(all, kindOf(recording.KindDeviceClaim, api.ResourceV1().ResourceClaims(everywhere),
			func(c *resourcev1.ResourceClaim, o *recording.Object) { o.DeviceClaim = strip.DeviceClaim(c) }))
	}
	if serves(api, schedulingv1alpha2.SchemeGroupVersion.String()) {
		all = append(all, kindOf(recording.KindPodGroup, api.SchedulingV1alpha2().PodGroups(everywhere),
			func(g *recording.PodGroup, o *recording.Object) { o.PodGroup = strip.PodGroup(g) }))
	}
	return all
}

// collection is the part of a typed client that lists and watches one kind; L is the type of its lists.
type collection[L runtime.Object] interface {
	List(context.Context, metav1.ListOptions) (L, error)
	Watch(context.Context, metav1.ListOptions) (watch.Interface, error)
}

// kindOf returns a kind whose objects have type T. Its functions work on runtime.Object, so that one source serves all
// kinds.
func kindOf[T, L runtime.Object](name recording.Kind, of collection[L], strip func(T, *recording.Object)) kind {
	return kind{
		name:  name,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return of.List(ctx, o) },
		watch: of.Watch,
		strip: func(obj runtime.Object, o *recording.Object) {
			if t, ok := obj.(T); ok {
				strip(t, o)
			}
		},
	}
}

// serves reports whether the API server has a group. If it cannot be asked, the group is assumed to exist: a kind that
// cannot be listed shows in the log, one that is left out would not.
func serves(api kubernetes.Interface, groupVersion string) bool {
	_, err := api.Discovery().ServerResourcesForGroupVersion(groupVersion)
	return !apierrors.IsNotFound(err)
}
