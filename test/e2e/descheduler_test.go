//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// taintPolicy evicts pods from nodes whose taints they do not tolerate.
const taintPolicy = `apiVersion: descheduler/v1alpha2
kind: DeschedulerPolicy
profiles:
- name: taints
  pluginConfig:
  - name: DefaultEvictor
  - name: RemovePodsViolatingNodeTaints
  plugins:
    deschedule:
      enabled:
      - RemovePodsViolatingNodeTaints
`

// When an operator taints a node, the pods that do not tolerate it are evicted and their
// replacements run elsewhere; pods that tolerate it, and pods without an owner, stay.
func TestTaintedNodeIsEmptiedByPolicy(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"}, nodeSpec{name: "node-1"}, nodeSpec{name: "node-2"})
	s.up(harness.UpConfig{
		Policy: s.file("policy.yaml", taintPolicy),
		Args:   []string{"--descheduling-interval", "1s"},
	})
	ns := s.namespace("evictions")
	const replicas = 9
	s.deployment(ns, "web", replicas)
	stays := corev1.Toleration{Key: "retired", Operator: corev1.TolerationOpExists}
	s.create(
		newPod(ns, "tolerant", "100m", tolerating(stays), onHost("node-0")),
		newPod(ns, "naked", "100m", onHost("node-0")),
	)
	before := map[types.UID]bool{}
	for _, pod := range s.bound(ns, replicas+2, placedWithin) {
		if pod.Spec.NodeName == "node-0" && pod.Labels["app"] == "web" {
			before[pod.UID] = true
		}
	}
	if len(before) == 0 {
		t.Fatal("no pod of the Deployment is on node-0: three equal nodes should share nine pods")
	}

	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.eventually(placedWithin, "node-0 has none of the Deployment's pods", func(ctx context.Context) (string, error) {
		list, err := s.client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{LabelSelector: "app=web"})
		if err != nil {
			return "", err
		}
		running, left := 0, 0
		for _, pod := range list.Items {
			if pod.Spec.NodeName == "node-0" {
				left++
			} else if pod.Status.Phase == corev1.PodRunning {
				running++
			}
		}
		if left == 0 && running == replicas {
			return "", nil
		}
		return fmt.Sprintf("%d left, %d run elsewhere", left, running), nil
	})
	for _, name := range []string{"tolerant", "naked"} {
		if pod := s.pod(ns, name); pod.Spec.NodeName != "node-0" || pod.DeletionTimestamp != nil {
			t.Errorf("pod %s should have stayed on node-0: node %q, deleted %v",
				name, pod.Spec.NodeName, pod.DeletionTimestamp)
		}
	}
}

func onHost(name string) podOption { return selecting(corev1.LabelHostname, name) }

func (s *stack) taint(node string, taint corev1.Taint) {
	s.Helper()
	s.patchTaints(node, types.StrategicMergePatchType, []corev1.Taint{taint})
}

// removeTaints removes all taints of a node.
func (s *stack) removeTaints(node string) {
	s.Helper()
	s.patchTaints(node, types.MergePatchType, nil)
}

func (s *stack) patchTaints(node string, kind types.PatchType, taints []corev1.Taint) {
	s.Helper()
	patch, err := json.Marshal(map[string]any{"spec": map[string]any{"taints": taints}})
	s.must(err)
	_, err = s.client.CoreV1().Nodes().Patch(s.Context(), node, kind, patch, metav1.PatchOptions{})
	s.must(err)
}
