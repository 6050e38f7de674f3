package record

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-scheduler/berth/pkg/audit"
)

// kinds are those that the audit looks at. The first is the cheapest to list.
func kinds(api kubernetes.Interface) []kind {
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
