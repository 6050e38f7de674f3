package decide

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/queue/decide/waiting"
)

// TestSpecMovedByClaims checks that of a pod's status only the claims that were made for it count, and only for pods
// that name claims.
func TestSpecMovedByClaims(t *testing.T) {
	pod := func(named bool, change func(*corev1.PodStatus)) *state.Pod {
		obj := statetest.Pod("default", "p")
		if template := "t"; named {
			obj.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "c", ResourceClaimTemplateName: &template}}
		}
		change(&obj.Status)
		return state.NewPod(obj)
	}
	claim := "p-c"
	nothing := func(*corev1.PodStatus) {}
	made := func(s *corev1.PodStatus) {
		s.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "c", ResourceClaimName: &claim}}
	}
	nominated := func(s *corev1.PodStatus) { s.NominatedNodeName = "n" }
	for name, test := range map[string]struct {
		named bool
		after func(*corev1.PodStatus)
		want  bool
	}{
		"its claim was made": {true, made, true},
		"it names none":      {false, made, false},
		"it was nominated":   {true, nominated, false},
	} {
		if got := waiting.SpecMoved(pod(test.named, nothing), pod(test.named, test.after)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
