package harness

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// WatchPods watches the pods of a namespace from now on (all namespaces if it is empty). The watch has connections of
// its own, so that it does not share any with the clients that create pods, uses the protocol that is cheapest to
// decode, and resumes where it was when a busy API server ends it. It ends with Stop, or with ctx.
func WatchPods(ctx context.Context, access *rest.Config, namespace string) (watch.Interface, error) {
	access = rest.CopyConfig(access)
	access.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return nil, err
	}
	pods := client.CoreV1().Pods(namespace)
	start, err := pods.List(ctx, metav1.ListOptions{Limit: 1}) // only its resourceVersion is wanted
	if err != nil {
		return nil, fmt.Errorf("list pods: %w", err)
	}
	w, err := watchtools.NewRetryWatcherWithContext(ctx, start.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return pods.Watch(ctx, options)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return w, nil
}
