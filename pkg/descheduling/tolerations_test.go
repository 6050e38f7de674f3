package descheduling

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// TestNumericTolerations: the comparison operators count as they do in the rule of the shards, for the nodes where a
// pod would fit and for the strategy about taints.
func TestNumericTolerations(t *testing.T) {
	for _, test := range statetest.NumericTolerations() {
		tolerations, taints := []corev1.Toleration{test.Toleration}, []corev1.Taint{test.Taint}
		if got := tolerates(tolerations, taints, func(*corev1.Taint) bool { return true }); got != test.Tolerated {
			t.Errorf("%s: tolerated is %t, want %t", test.Name, got, test.Tolerated)
		}
	}
}
