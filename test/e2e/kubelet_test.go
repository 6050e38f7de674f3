//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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
	one := int32(1)
	set := &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec:       appsv1.ReplicaSetSpec{Replicas: &one, Selector: labelled("web"), Template: template("web", "1")},
	}
	likes := newPod(ns, "unused", "1", preferring(100, "liked", "yes"))
	set.Spec.Template.Spec.Affinity = likes.Spec.Affinity
	_, err := s.client.AppsV1().ReplicaSets(ns).Create(t.Context(), set, metav1.CreateOptions{})
	s.must(err)
	first := s.bound(ns, 1, placedWithin)[0]
	if first.Spec.NodeName != "liked" {
		t.Fatalf("the first pod stands on %s, want the node it prefers", first.Spec.NodeName)
	}

	// The simulated kubelet writes the pod's status, too, and may make the pod Running again. The ReplicaSet then deletes
	// one of two pods. So the test rejects the first pod until it has seen a replacement on a node.
	var elsewhere string
	s.eventually(placedWithin, "a replacement of the rejected pod is bound", func(ctx context.Context) (string, error) {
		reported := "no pod"
		for _, pod := range s.pods(ns) {
			switch {
			case pod.UID != first.UID && pod.Spec.NodeName != "":
				elsewhere = pod.Spec.NodeName
				return "", nil
			case pod.UID == first.UID:
				pod.Status = corev1.PodStatus{
					Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: "Pod was rejected: Node didn't have enough resource: cpu",
				}
				_, err := s.client.CoreV1().Pods(ns).UpdateStatus(ctx, &pod, metav1.UpdateOptions{})
				reported = fmt.Sprintf("no replacement yet (%v)", err)
			}
		}
		return reported, nil
	})
	if elsewhere != "other" {
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
