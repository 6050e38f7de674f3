package e2e

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

const (
	// low and high are the classes of the pods that run first and of those that arrive in mode preempt.
	low, high = "bench-low", "bench-high"
	// standing is the namespace of the pods that run first, warm the pod that shows that the contender preempts.
	standing, warm = "standing", "warm"
	// warmWithin bounds the wait for it.
	warmWithin = 5 * time.Minute
	// share is the CPU of a pod in mode preempt.
	share = "1"
)

// stand fills every node with pods of low priority that are bound already.
func (g *ground) stand(ctx context.Context, perNode int) error {
	client := g.Cluster.Client
	for name, value := range map[string]int32{low: 10, high: 1000} {
		class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value}
		if _, err := client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := harness.CreateNamespace(ctx, client, harness.Namespace(standing)); err != nil {
		return err
	}
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var pods []*corev1.Pod
	for i := range nodes.Items {
		for n := range perNode {
			pod := prioritized(standing, fmt.Sprintf("%s-%d", nodes.Items[i].Name, n), low)
			pod.Spec.NodeName = nodes.Items[i].Name
			pods = append(pods, pod)
		}
	}
	g.stood = len(pods)
	return harness.CreatePods(ctx, client, pods)
}

// warmUp lets the contender preempt once, so that the clock does not start before it can.
func (g *ground) warmUp(ctx context.Context) error {
	client := g.Cluster.Client
	if err := harness.CreatePods(ctx, client, []*corev1.Pod{prioritized(standing, warm, high)}); err != nil {
		return err
	}
	return harness.Eventually(ctx, warmWithin, "the first preemptor is bound", func(ctx context.Context) (string, error) {
		pod, err := client.CoreV1().Pods(standing).Get(ctx, warm, metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "" {
			return "", err
		}
		return "it waits", nil
	})
}

// evicted is how many of the pods that ran first are gone, without the victim of the warm-up.
func (g *ground) evicted(ctx context.Context) (int, error) {
	list, err := g.Cluster.Client.CoreV1().Pods(standing).List(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	return g.stood - len(list.Items), nil
}

// prioritized is a pod of a class, without a grace period.
func prioritized(namespace, name, class string) *corev1.Pod {
	pod := bench.Pod(namespace, name, share, "")
	pod.Spec.PriorityClassName = class
	pod.Spec.TerminationGracePeriodSeconds = ptr.To[int64](0)
	return pod
}
