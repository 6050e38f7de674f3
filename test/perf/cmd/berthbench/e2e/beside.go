package e2e

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/perf/bench"
)

const (
	// beside is the namespace of pods that exist in addition to the measured ones.
	beside = "beside"
	// besideWithin bounds the wait until it is as it should be.
	besideWithin = 5 * time.Minute
	// leaveEvery is the time between two deletions. Each frees capacity that might help every blocked pod, as only an
	// attempt can show.
	leaveEvery = 10 * time.Millisecond
)

// prepare makes blocked pods, which fit nowhere, and waits until each has been tried; and
// leaving pods, and waits until they are bound.
func (g *ground) prepare(ctx context.Context, blocked, leaving int) error {
	if blocked+leaving == 0 {
		return nil
	}
	client := g.Cluster.Client
	if err := harness.CreateNamespace(ctx, client, harness.Namespace(beside)); err != nil {
		return err
	}
	var pods []*corev1.Pod
	for i := range blocked {
		pods = append(pods, newPod(beside, fmt.Sprintf("blocked-%05d", i), "1000"))
	}
	for i := range leaving {
		pods = append(pods, newPod(beside, leaver(i), "10m"))
	}
	if err := harness.CreatePods(ctx, client, pods); err != nil {
		return err
	}
	return harness.Eventually(ctx, besideWithin, "blocked pods are tried, leaving ones bound",
		func(ctx context.Context) (string, error) {
			list, err := client.CoreV1().Pods(beside).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			if err != nil {
				return err.Error(), nil
			}
			tried := 0
			for i := range list.Items {
				if len(list.Items[i].Status.Conditions) > 0 {
					tried++
				}
			}
			if missing := len(pods) - tried; missing > 0 {
				return fmt.Sprintf("%d are missing", missing), nil
			}
			return "", nil
		})
}

func leaver(i int) string { return fmt.Sprintf("leaving-%05d", i) }

// leave deletes the leaving pods, one after the other, until stop is called.
func leave(ctx context.Context, client kubernetes.Interface, leaving int) (stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		deleteAll(ctx, client, leaving)
	}()
	return func() {
		cancel()
		<-done
	}
}

func deleteAll(ctx context.Context, client kubernetes.Interface, leaving int) {
	tick := time.NewTicker(leaveEvery)
	defer tick.Stop()
	for i := range leaving {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		// One that stays is one event less.
		_ = client.CoreV1().Pods(beside).Delete(ctx, leaver(i), metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	}
}

func newPod(namespace, name, cpu string) *corev1.Pod { return bench.Pod(namespace, name, cpu, "500Mi") }
