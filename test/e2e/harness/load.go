package harness

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// createWorkers is how many creations are under way at once: enough to keep an API server on
// two processors busy, few enough not to queue in it.
const createWorkers = 16

// CreatePods creates pods with parallel clients and returns when all exist.
func CreatePods(ctx context.Context, client kubernetes.Interface, pods []*corev1.Pod) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(createWorkers)
	for _, pod := range pods {
		group.Go(func() error {
			_, err := client.CoreV1().Pods(pod.Namespace).Create(ctx, pod, metav1.CreateOptions{})
			if err != nil {
				return fmt.Errorf("create pod %s/%s: %w", pod.Namespace, pod.Name, err)
			}
			return nil
		})
	}
	return group.Wait()
}

// ListAll lists the pods of all namespaces and then the nodes, so that the node of a pod in the
// answer is in the answer too, unless it was deleted in between.
func ListAll(ctx context.Context, client kubernetes.Interface) ([]corev1.Node, []corev1.Pod, error) {
	pods, err := client.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list pods: %w", err)
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, fmt.Errorf("list nodes: %w", err)
	}
	return nodes.Items, pods.Items, nil
}
