//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A pod that fits nowhere reports that in kube-scheduler's words, in its condition and in an event; it is bound soon
// after a node appears that fits, and only then.
func TestUnschedulablePodSaysWhyAndBindsWhenANodeFits(t *testing.T) {
	t.Parallel()
	s := newStack(t, sixtyNodes)
	s.up(harness.UpConfig{Shards: 2, Binders: 2})
	ns := s.namespace("waiting")
	const (
		noSelected = "0/60 nodes are available: 60 node(s) didn't match Pod's node affinity/selector."
		noRoom     = "0/60 nodes are available: 60 Insufficient cpu."
	)
	s.create(newPod(ns, "ssd", "1", selecting("disktype", "ssd")), newPod(ns, "large", "9"))
	s.unschedulable(ns, "ssd", noSelected)
	s.unschedulable(ns, "large", noRoom)
	s.failedEvent(ns, "ssd", noSelected)
	s.failedEvent(ns, "large", noRoom)

	s.addNodes(nodeSpec{name: "ssd-0", labels: map[string]string{"disktype": "ssd"}})
	if got := s.nodeOf(ns, "ssd"); got != "ssd-0" {
		t.Errorf("ssd stands on %s, want ssd-0", got)
	}
	if got := s.pod(ns, "large").Spec.NodeName; got != "" {
		t.Errorf("large asks for 9 CPU and stands on %s, which has 8", got)
	}
	s.addNodes(nodeSpec{name: "large-0", capacity: "16"})
	if got := s.nodeOf(ns, "large"); got != "large-0" {
		t.Errorf("large stands on %s, want large-0", got)
	}
	s.boundOnce(ns)
	s.audit()
}

// failedEvent waits for a warning FailedScheduling with a note that begins so.
func (s *stack) failedEvent(ns, pod, note string) {
	s.Helper()
	what := "pod " + pod + " has its FailedScheduling event"
	s.eventually(placedWithin, what, func(ctx context.Context) (string, error) {
		events, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		last := "no such event"
		for _, event := range events.Items {
			if event.Regarding.Name != pod || event.Reason != "FailedScheduling" {
				continue
			}
			if strings.HasPrefix(event.Note, note) && event.Type == corev1.EventTypeWarning {
				return "", nil
			}
			last = event.Type + ": " + event.Note
		}
		return last, nil
	})
}

// A gated pod is never attempted; it is bound within a second once its last gate is gone.
func TestGatedPodWaitsForItsLastGate(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"})
	berth := s.up(harness.UpConfig{})
	ns := s.namespace("gates")
	s.create(newPod(ns, "gated", "1", gated("wait.for/dependency", "wait.for/budget")))
	s.eventually(placedWithin, "one pod counts as gated", func(ctx context.Context) (string, error) {
		n, err := berth.Metric(ctx, "scheduler_pending_pods", `queue="gated"`)
		if err != nil || n == 1 {
			return "", err
		}
		return fmt.Sprintf("%v pods", n), nil
	})

	s.removeGates(ns, "gated", `[{"name":"wait.for/budget"}]`)
	// A pod made after the first gate went is bound: the gated one had its chance too.
	s.create(newPod(ns, "open", "1"))
	s.nodeOf(ns, "open")
	pod := s.pod(ns, "gated")
	if c := conditionOf(pod); pod.Spec.NodeName != "" || c.Reason != corev1.PodReasonSchedulingGated {
		t.Errorf("with one gate left: node %q, reason %s", pod.Spec.NodeName, c.Reason)
	}

	s.removeGates(ns, "gated", `[]`)
	s.nodeOf(ns, "gated")
	n, err := berth.Metric(t.Context(), "scheduler_schedule_attempts_total", `result="scheduled"`)
	s.must(err)
	if n != 2 {
		t.Errorf("%v placements, want 2: a place was taken back from a pod whose last gate had just gone", n)
	}
	s.noEvent(ns, "gated", "FailedScheduling")
}

func (s *stack) removeGates(ns, pod, left string) {
	s.Helper()
	patch := `{"spec":{"schedulingGates":` + left + `}}`
	_, err := s.client.CoreV1().Pods(ns).Patch(
		s.Context(), pod, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

func (s *stack) noEvent(ns, pod, reason string) {
	s.Helper()
	events, err := s.client.EventsV1().Events(ns).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	for _, event := range events.Items {
		if event.Regarding.Name == pod && event.Reason == reason {
			s.Errorf("pod %s has an event %s: %s", pod, reason, event.Note)
		}
	}
}

// Berth places the pods of the schedulers it is configured as and leaves all others alone.
func TestPodsOfOtherSchedulersAreLeftAlone(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "2"})
	config := s.file("config.yaml", `apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
profiles:
- schedulerName: berth
- schedulerName: berth-batch
`)
	s.up(harness.UpConfig{Config: config})
	ns := s.namespace("names")
	s.create(newPod(ns, "default", "1"), newPod(ns, "nobody", "1", scheduledBy("nobody")))
	s.create(newPod(ns, "first", "1", scheduledBy("berth")))
	s.nodeOf(ns, "first")
	s.create(newPod(ns, "second", "1", scheduledBy("berth-batch")))
	s.nodeOf(ns, "second")
	for _, name := range []string{"default", "nobody"} {
		pod := s.pod(ns, name)
		if c := conditionOf(pod); pod.Spec.NodeName != "" || c.Type != "" {
			t.Errorf("pod %s of another scheduler: node %q, condition %+v", name, pod.Spec.NodeName, c)
		}
	}
	s.audit()
}
