package contend

import (
	"context"
	"fmt"
	"iter"
	"strconv"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// rawClients are how many binds a raw contender has on their way. The best of them shows the API server's limit for
// any client: nothing is decided, nothing is reserved, no event is written.
var rawClients = []int{8, 16, 32, 64}

// rawPrefix begins their names.
const rawPrefix = "raw-"

// raws bind pods to nodes in turn, and do nothing else.
func raws() []Contender {
	list := make([]Contender, 0, len(rawClients))
	for _, n := range rawClients {
		list = append(list, Contender{Name: rawPrefix + strconv.Itoa(n), Raw: true,
			Start: func(ctx context.Context, g *Ground) error { return startRaw(ctx, g, n) }})
	}
	return list
}

// startRaw binds existing pods, or arriving ones, in the background.
func startRaw(ctx context.Context, g *Ground, clients int) error {
	access := rest.CopyConfig(g.Cluster.Rest)
	access.ContentType = "application/vnd.kubernetes.protobuf"
	client, err := kubernetes.NewForConfig(access)
	if err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	pods, end, err := rawPods(ctx, client, g)
	if err != nil {
		return err
	}
	bindCtx, cancel := context.WithCancel(ctx)
	group, bindCtx := errgroup.WithContext(bindCtx)
	group.SetLimit(clients)
	var feeding sync.WaitGroup
	feeding.Go(func() {
		i := 0
		for pod := range pods {
			node := nodes.Items[i%len(nodes.Items)].Name
			group.Go(func() error { return bindTo(bindCtx, client, pod, node) })
			i++
		}
	})
	g.Add(func(context.Context) error {
		defer cancel()
		end()
		feeding.Wait()
		return group.Wait()
	})
	return nil
}

// rawPods are the existing pods, or those that are created until end is called.
func rawPods(ctx context.Context, client kubernetes.Interface, g *Ground) (
	pods iter.Seq[*corev1.Pod], end func(), err error,
) {
	if !g.Coming {
		there, err := client.CoreV1().Pods(g.Namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, nil, err
		}
		return func(yield func(*corev1.Pod) bool) {
			for i := range there.Items {
				if !yield(&there.Items[i]) {
					return
				}
			}
		}, func() {}, nil
	}
	come, err := harness.WatchPods(ctx, g.Cluster.Rest, g.Namespace)
	if err != nil {
		return nil, nil, err
	}
	return func(yield func(*corev1.Pod) bool) {
		for event := range come.ResultChan() {
			if pod, ok := event.Object.(*corev1.Pod); ok && event.Type == watch.Added && !yield(pod) {
				return
			}
		}
	}, come.Stop, nil
}

func bindTo(ctx context.Context, client kubernetes.Interface, pod *corev1.Pod, node string) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID},
		Target:     corev1.ObjectReference{Kind: "Node", Name: node},
	}
	if err := client.CoreV1().Pods(pod.Namespace).Bind(ctx, binding, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("bind %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	return nil
}
