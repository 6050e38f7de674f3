package descheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// resizing makes a pod that has been allocated some cpu and requests 7.
func resizing(allocated, reason string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("7")
		given := corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(allocated), corev1.ResourceMemory: resource.MustParse("1Gi"),
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{
			Name: p.Spec.Containers[0].Name, AllocatedResources: given,
			Resources: &corev1.ResourceRequirements{Requests: given},
		}}
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: reason,
		}}
	}
}

// TestResizedPodsCountAsForTheScheduler checks that a pod that cannot be resized counts with what it has been
// allocated, and one that may be resized with the larger of that and its request. Otherwise a node that is empty
// for the scheduler would be overutilised for good, or the other way round.
func TestResizedPodsCountAsForTheScheduler(t *testing.T) {
	const low = "LowNodeUtilization: {thresholds: {cpu: 10}, targetThresholds: {cpu: 50}}"
	const over = "x/p: node a is over: cpu 100% (50%)\nx/q: node a is over: cpu 100% (50%)\n"
	for _, tt := range []struct {
		name           string
		change         func(*corev1.Pod)
		upstream, ours string
	}{
		{"infeasible", resizing("1", corev1.PodReasonInfeasible), over, ""},
		{"deferred", resizing("1", corev1.PodReasonDeferred), over, over},
		{"smaller, not yet done", func(p *corev1.Pod) {
			resizing("7", corev1.PodReasonDeferred)(p)
			p.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("1")
		}, "", over},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := Input{
				Cluster: statetest.Snapshot(t, node("a"), node("b"), pod("x/p", "a"), pod("x/q", "a", tt.change)),
				Policy:  profileOf(t, "balance", "", low), Now: now,
			}
			expect(t, in, tt.ours)
			in.Upstream = true
			expect(t, in, tt.upstream)
		})
	}
}
