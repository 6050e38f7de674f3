//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	schedulinghelpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// The words of the two autoscalers, and of Berth's marks, as their readers know them.
const (
	withheldTaint     = "status-taint.cluster-autoscaler.kubernetes.io/berth-withheld"
	scaleDownDisabled = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
	doNotDisrupt      = "karpenter.sh/do-not-disrupt"
	marksAnnotation   = "berth.dev/marks"
	// markedWithin bounds the wait for a mark, or for its end: at most a minute after its reason.
	markedWithin = 3 * time.Minute
)

// autoscaler is what an autoscaler makes of the API server: it knows nothing of Berth.
type autoscaler struct{ *stack }

// wanted reports whether a pod may get a node: the condition that both autoscalers look for.
func (autoscaler) wanted(pod *corev1.Pod) bool {
	c := conditionOf(pod)
	return pod.Spec.NodeName == "" && pod.Status.NominatedNodeName == "" &&
		c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable
}

// fits reports whether a pod fits on a node in a simulation of the filters for taints, node selectors and CPU.
func (a autoscaler) fits(ctx context.Context, pod *corev1.Pod, node *corev1.Node) (bool, error) {
	_, repelled := schedulinghelpers.FindMatchingUntoleratedTaint(klog.Logger{}, node.Spec.Taints, pod.Spec.Tolerations,
		func(t *corev1.Taint) bool { return t.Effect != corev1.TaintEffectPreferNoSchedule }, false)
	selects, err := nodeaffinity.GetRequiredNodeAffinity(pod).Match(node)
	if err != nil || repelled || !selects || node.Spec.Unschedulable {
		return false, err
	}
	list, err := a.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + node.Name})
	if err != nil {
		return false, err
	}
	free := node.Status.Allocatable.Cpu().DeepCopy()
	for i := range list.Items {
		if p := &list.Items[i]; p.Status.Phase != corev1.PodFailed && p.Status.Phase != corev1.PodSucceeded {
			free.Sub(cpuOf(p))
		}
	}
	need := cpuOf(pod)
	return free.Cmp(need) >= 0, nil
}

func cpuOf(pod *corev1.Pod) (sum resource.Quantity) {
	for i := range pod.Spec.Containers {
		sum.Add(*pod.Spec.Containers[i].Resources.Requests.Cpu())
	}
	return sum
}

// removable reports whether either autoscaler may remove a node that it finds empty.
func (autoscaler) removable(node *corev1.Node) bool {
	return node.Annotations[scaleDownDisabled] != "true" || node.Annotations[doNotDisrupt] != "true"
}

func (s *stack) node(name string) *corev1.Node {
	s.Helper()
	node, err := s.client.CoreV1().Nodes().Get(s.Context(), name, metav1.GetOptions{})
	s.must(err)
	return node
}

// unmarked waits until no node has marks any more.
func (s *stack) unmarked() {
	s.Helper()
	s.eventually(markedWithin, "no node has marks", func(ctx context.Context) (string, error) {
		list, err := s.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, n := range list.Items {
			if n.Annotations[marksAnnotation] != "" || len(n.Spec.Taints) > 0 {
				return fmt.Sprintf("%s: %v, taints %v", n.Name, n.Annotations, n.Spec.Taints), nil
			}
		}
		return "", nil
	})
}

// A pod waits because the only node with room is avoided for its owner. With marks, an autoscaler sees a pod that wants
// a node, and no node where it fits. Berth itself places the pod there when its own reason has ended, and the mark
// goes.
func TestAutoscalerSeesWithheldRoom(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(
		nodeSpec{name: "only", labels: map[string]string{"liked": "yes"}}, nodeSpec{name: "other"}, nodeSpec{name: "third"})
	berth := s.up(harness.UpConfig{Shards: 2, Binders: 2, Args: []string{"--node-marks", "write"}})
	a := autoscaler{s}
	ns := s.namespace("withheld")
	pod := template("web", "1")
	pod.Spec.NodeSelector = map[string]string{"liked": "yes"}
	s.replicaOfOne(ns, pod)
	first := s.bound(ns, 1, placedWithin)[0]
	s.reject(ns, first.Name)
	waiting := s.replacement(ns, first.UID)
	s.eventually(placedWithin, "the autoscaler sees no room", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, waiting.Name, metav1.GetOptions{})
		if err != nil || pod.Spec.NodeName != "" {
			return "", fmt.Errorf("pod on node %q: %w", pod.Spec.NodeName, err)
		}
		fits, err := a.fits(ctx, pod, s.node("only"))
		if err != nil || a.wanted(pod) && !fits {
			return "", err
		}
		c := conditionOf(pod)
		return fmt.Sprintf("it fits: %t; condition %s: %s", fits, c.Reason, c.Message), nil
	})
	if taints := s.node("other").Spec.Taints; len(taints) > 0 {
		t.Errorf("a node that nothing waits for has taints %v", taints)
	}
	if n, err := berth.Metric(t.Context(), "berth_nodes_marked", `mark="withheld"`); err != nil || n > 1 {
		t.Errorf("%v nodes are counted as withheld (%v)", n, err)
	}
	// The taint is Berth's own, and Berth does not wait for its end.
	if got := s.nodeOf(ns, waiting.Name); got != "only" {
		t.Errorf("the pod stands on %s", got)
	}
	s.unmarked()
	s.audit()
}

// A pod waits for a volume that is never made. With marks, no autoscaler removes its node meanwhile, however often
// Berth is killed, and what an administrator has written stays.
func TestAutoscalerKeepsNodesUnderReservations(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	ns := s.namespace("kept")
	s.diskNodes(ns, 1)
	name := ns + "-0"
	_, err := s.client.CoreV1().Nodes().Patch(t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"`+doNotDisrupt+`":"true"}}}`), metav1.PatchOptions{})
	s.must(err)
	config := harness.UpConfig{Shards: 1, Binders: 2, Args: []string{"--node-marks", "write"}}
	berth := s.up(config)
	a := autoscaler{s}
	s.class("never", "nobody.example.com", storagev1.VolumeBindingWaitForFirstConsumer, nil)
	s.claim(ns, "c", "never", corev1.ReadWriteOnce)
	s.create(newPods(ns, "p", 1, "10m", selecting(lab, ns), withClaim("c"))...)
	kept := func(context.Context) (string, error) {
		if n := s.node(name); a.removable(n) || n.Annotations[marksAnnotation] == "" {
			return fmt.Sprint(n.Annotations), nil
		}
		return "", nil
	}
	s.eventually(markedWithin, "the node is kept", kept)
	berth.Kill()
	berth = s.up(config)
	s.eventually(markedWithin, "the node is still kept", kept)
	berth.Kill()
	s.must(s.client.CoreV1().Pods(ns).Delete(t.Context(), "p-0000", metav1.DeleteOptions{}))
	s.up(config)
	s.unmarked()
	n := s.node(name)
	if _, left := n.Annotations[scaleDownDisabled]; left || n.Annotations[doNotDisrupt] != "true" {
		t.Errorf("annotations %v, want the administrator's and no other", n.Annotations)
	}
}

// With remove, binders remove the marks that others left, and write none.
func TestMarksAreRemovedOnRequest(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "left", labels: map[string]string{"liked": "yes"}})
	_, err := s.client.CoreV1().Nodes().Patch(t.Context(), "left", types.MergePatchType, []byte(`{
		"metadata":{"annotations":{"`+marksAnnotation+`":"kept,scale-down-disabled,withheld",
			"`+scaleDownDisabled+`":"true","`+doNotDisrupt+`":"true"}},
		"spec":{"taints":[{"key":"`+withheldTaint+`","value":"true","effect":"NoSchedule"}]}}`), metav1.PatchOptions{})
	s.must(err)
	s.up(harness.UpConfig{Args: []string{"--node-marks", "remove"}})
	s.unmarked()
	n := s.node("left")
	if _, is := n.Annotations[scaleDownDisabled]; is || n.Annotations[doNotDisrupt] != "true" {
		t.Errorf("annotations %v, want those that Berth has not written", n.Annotations)
	}
	ns := s.namespace("removed")
	s.create(newPod(ns, "p", "1"))
	if got := s.nodeOf(ns, "p"); got != "left" {
		t.Errorf("the pod stands on %s", got)
	}
}
