package state_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

func TestRejectionIsTheKubeletsRefusalOfABoundPod(t *testing.T) {
	const said = "Pod was rejected: Node didn't have enough resource: cpu"
	tests := map[string]struct {
		node   string
		status corev1.PodStatus
		want   string
	}{
		"for want of cpu": {"n", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: said}, "OutOfcpu"},
		"for its labels": {"n", corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "NodeAffinity", Message: "Pod was rejected: Predicate NodeAffinity failed",
		}, "NodeAffinity"},
		"not bound": {"", corev1.PodStatus{Phase: corev1.PodFailed, Reason: "OutOfcpu", Message: said}, ""},
		"running":   {"n", corev1.PodStatus{Phase: corev1.PodRunning}, ""},
		"evicted later": {"n", corev1.PodStatus{
			Phase: corev1.PodFailed, Reason: "Evicted", Message: "The node was low on memory.",
		}, ""},
		"its own failure": {"n", corev1.PodStatus{Phase: corev1.PodFailed}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			pod := state.NewPod(&corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Namespace: "d", Name: "p", UID: "u", ResourceVersion: "1"},
				Spec:       corev1.PodSpec{NodeName: test.node}, Status: test.status,
			})
			reason, message, ok := pod.Rejection()
			if reason != test.want || ok != (test.want != "") || ok && message != test.status.Message {
				t.Errorf("%q, %q, %v, want %q", reason, message, ok, test.want)
			}
		})
	}
}
