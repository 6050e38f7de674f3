//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A kubelet does not admit a pod that was bound to its node. The replacement pod of its ReplicaSet is placed
// elsewhere, although it still prefers the node, and the rejection is counted.
func TestReplacementOfARejectedPodGoesElsewhere(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "liked", labels: map[string]string{"liked": "yes"}}, nodeSpec{name: "other"})
	berth := s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("rejected")
	pod := template("web", "1")
	pod.Spec.Affinity = newPod(ns, "unused", "1", preferring(100, "liked", "yes")).Spec.Affinity
	s.replicaOfOne(ns, pod)
	first := s.bound(ns, 1, placedWithin)[0]
	if first.Spec.NodeName != "liked" {
		t.Fatalf("the first pod stands on %s, want the node it prefers", first.Spec.NodeName)
	}
	s.reject(ns, first.Name)
	if elsewhere := s.nodeOf(ns, s.replacement(ns, first.UID).Name); elsewhere != "other" {
		t.Errorf("the replacement stands on %s, want it to avoid the node that rejected its predecessor", elsewhere)
	}
	s.eventually(placedWithin, "the rejection is counted", func(ctx context.Context) (string, error) {
		n, err := berth.Metric(ctx, "berth_kubelet_rejections_total", `reason="OutOfcpu"`)
		if err != nil || n > 0 {
			return "", err
		}
		return fmt.Sprint(n), nil
	})
}

// replicaOfOne creates ReplicaSet web of one pod, whose status is the test's to write. The simulated kubelet leaves it
// alone: a rejected pod that it made Running would be a second one, and the ReplicaSet would delete either.
func (s *stack) replicaOfOne(ns string, pod corev1.PodTemplateSpec) {
	s.Helper()
	one := int32(1)
	pod.Annotations = map[string]string{"pod-ready.stage.kwok.x-k8s.io/delay": "1h"}
	_, err := s.client.AppsV1().ReplicaSets(ns).Create(s.Context(), &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &one, Selector: labelled("web"), Template: pod},
	}, metav1.CreateOptions{})
	s.must(err)
}

// reject writes what a kubelet writes about a pod that it does not admit.
func (s *stack) reject(ns, name string) {
	s.Helper()
	_, err := s.client.CoreV1().Pods(ns).Patch(s.Context(), name, types.MergePatchType, []byte(`{"status":{
		"phase":"Failed","reason":"OutOfcpu","message":"Pod was rejected: Node didn't have enough resource: cpu"}}`),
		metav1.PatchOptions{}, "status")
	s.must(err)
}

// replacement waits until a namespace has another pod than the first, and returns it.
func (s *stack) replacement(ns string, first types.UID) (other corev1.Pod) {
	s.Helper()
	s.eventually(placedWithin, "a replacement of the rejected pod", func(context.Context) (string, error) {
		for _, other = range s.pods(ns) {
			if other.UID != first {
				return "", nil
			}
		}
		return "none", nil
	})
	return other
}
