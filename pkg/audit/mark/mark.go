package mark

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

const (
	// Attempt is the annotation with the token that a bind by Berth leaves on the pod. Fence is that of the change which
	// a fence makes: the token, a dash, and a unique suffix. Where annotations have no room, conditions of these types
	// are used instead: that of an attempt holds the token and the node, that of a fence the same as the annotation.
	Attempt = "berth.dev/attempt"
	Fence   = "berth.dev/fence"
)

// AttemptOf returns the token of the bind by Berth that placed a pod on its node; false if there was none. If both
// forms exist, the condition is from an earlier attempt: annotations that contain one token have room for another,
// so a bind overwrites it.
func AttemptOf(pod *corev1.Pod) (ledger.Token, bool) {
	if token, err := ledger.ParseToken(pod.Annotations[Attempt]); err == nil {
		return token, true
	}
	text, node, _ := strings.Cut(Condition(pod, Attempt), " ")
	if node != pod.Spec.NodeName {
		return 0, false
	}
	token, err := ledger.ParseToken(text)
	return token, err == nil
}

// Condition returns the message of a condition of Berth's; empty for none.
func Condition(pod *corev1.Pod, name corev1.PodConditionType) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == name {
			return c.Message
		}
	}
	return ""
}
