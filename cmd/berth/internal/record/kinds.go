package record

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	resourcev1 "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/audit"
)

// kinds are those that the audit looks at. The first is the cheapest to list.
func kinds(api kubernetes.Interface) []kind {
	all := append(placeKinds(api), volumeKinds(api)...)
	devices := api.ResourceV1().ResourceClaims(metav1.NamespaceAll)
	if !serves(api, resourcev1.SchemeGroupVersion.String()) {
		return all
	}
	return append(all, kind{
		name:  audit.KindDeviceClaim,
		list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return devices.List(ctx, o) },
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return devices.Watch(ctx, o) },
		strip: func(obj runtime.Object, o *audit.Object) {
			if c, ok := obj.(*resourcev1.ResourceClaim); ok {
				o.DeviceClaim = audit.StripDeviceClaim(c)
			}
		},
	})
}

// serves tells whether the API server has a group; one that cannot be asked has it.
func serves(api kubernetes.Interface, groupVersion string) bool {
	_, err := api.Discovery().ServerResourcesForGroupVersion(groupVersion)
	return !apierrors.IsNotFound(err)
}

// volumeKinds are claims to volumes, and volumes.
func volumeKinds(api kubernetes.Interface) []kind {
	claims, volumes := api.CoreV1().PersistentVolumeClaims(metav1.NamespaceAll), api.CoreV1().PersistentVolumes()
	return []kind{
		{
			name:  audit.KindVolumeClaim,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return claims.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return claims.Watch(ctx, o) },
			strip: func(obj runtime.Object, o *audit.Object) {
				if c, ok := obj.(*corev1.PersistentVolumeClaim); ok {
					o.Claim = audit.StripVolumeClaim(c)
				}
			},
		},
		{
			name:  audit.KindVolume,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return volumes.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return volumes.Watch(ctx, o) },
			strip: func(obj runtime.Object, o *audit.Object) {
				if v, ok := obj.(*corev1.PersistentVolume); ok {
					o.Volume = audit.StripVolume(v)
				}
			},
		},
	}
}

// placeKinds are pods, and what they stand on and under.
func placeKinds(api kubernetes.Interface) []kind {
	namespaces, nodes, pods := api.CoreV1().Namespaces(), api.CoreV1().Nodes(), api.CoreV1().Pods(metav1.NamespaceAll)
	budgets := api.PolicyV1().PodDisruptionBudgets(metav1.NamespaceAll)
	return []kind{
		{
			name: audit.KindNamespace,
			list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
				return namespaces.List(ctx, o)
			},
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
				return namespaces.Watch(ctx, o)
			},
			strip: func(obj runtime.Object, o *audit.Object) {
				if n, ok := obj.(*corev1.Namespace); ok {
					o.Namespace = audit.StripNamespace(n)
				}
			},
		},
		{
			name:  audit.KindNode,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return nodes.Watch(ctx, o) },
			strip: func(obj runtime.Object, o *audit.Object) {
				if n, ok := obj.(*corev1.Node); ok {
					o.Node = audit.StripNode(n)
				}
			},
		},
		{
			name:  audit.KindPod,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return pods.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return pods.Watch(ctx, o) },
			strip: func(obj runtime.Object, o *audit.Object) {
				if p, ok := obj.(*corev1.Pod); ok {
					o.Pod = audit.StripPod(p)
				}
			},
		},
		{
			name:  audit.KindBudget,
			list:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return budgets.List(ctx, o) },
			watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return budgets.Watch(ctx, o) },
			strip: func(obj runtime.Object, o *audit.Object) {
				if b, ok := obj.(*policyv1.PodDisruptionBudget); ok {
					o.Budget = audit.StripBudget(b)
				}
			},
		},
	}
}
