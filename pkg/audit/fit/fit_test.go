package fit

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestNumericTolerations: the comparison operators count as they do in the rule of the shards.
func TestNumericTolerations(t *testing.T) {
	for _, test := range statetest.NumericTolerations() {
		pod := &corev1.Pod{Spec: corev1.PodSpec{Tolerations: []corev1.Toleration{test.Toleration}}}
		if _, found := Untolerated(pod, []corev1.Taint{test.Taint}); found == test.Tolerated {
			t.Errorf("%s: untolerated is %t, want %t", test.Name, found, !test.Tolerated)
		}
	}
}

// TestDevicesThatTakeOfTheNode: what devices take of the node by the pod's status counts.
func TestDevicesThatTakeOfTheNode(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}}}
	pod.Status.NodeAllocatableResourceClaimStatuses = []corev1.NodeAllocatableResourceClaimStatus{{
		ResourceClaimName: "cpus", Resources: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("3")},
	}}
	if got := Requests(pod)[string(corev1.ResourceCPU)]; got != 4000 {
		t.Errorf("%d milli-CPU, want 4000", got)
	}
}
