package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// What the kubelet writes into the status of a pod that it does not admit. Source:
// Kubelet.rejectPod in pkg/kubelet/kubelet.go, InsufficientResourcePrefix in
// pkg/kubelet/lifecycle/predicate.go.
const (
	rejectedMessage  = "Pod was rejected: "
	insufficientWord = "OutOf"
)

// Rejection is what the kubelet says about a pod that it turned away after the bind: the
// reason in one word ("OutOfcpu", "NodeAffinity", "TopologyAffinityError", …). Such a pod
// never ran, and never will. ok is false for all others: a pod that failed after it was
// admitted is no verdict about its node.
func (p *Pod) Rejection() (reason, message string, ok bool) {
	if !p.Terminal || p.NodeName == "" || p.form == nil {
		return "", "", false
	}
	s := &p.form.status.api
	if s.Phase != corev1.PodFailed || !strings.HasPrefix(s.Message, rejectedMessage) {
		return "", "", false
	}
	return s.Reason, s.Message, true
}

// Insufficient tells a Rejection for want of a resource, which the kubelet counts otherwise
// than the API shows it.
func Insufficient(rejection string) bool { return strings.HasPrefix(rejection, insufficientWord) }
