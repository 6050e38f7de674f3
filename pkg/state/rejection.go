package state

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Text that the kubelet writes into the status of a pod that it does not admit. Source: Kubelet.rejectPod in
// pkg/kubelet/kubelet.go, InsufficientResourcePrefix in pkg/kubelet/lifecycle/predicate.go.
const (
	rejectedMessage  = "Pod was rejected: "
	insufficientWord = "OutOf"
)

// Rejection returns the kubelet's reason and message for a pod that it rejected after the bind; the reason is one
// word ("OutOfcpu", "NodeAffinity", "TopologyAffinityError", …). Such a pod never ran, and never will. ok is false
// for all other pods: a pod that failed after it was admitted says nothing about its node.
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

// Insufficient reports whether a Rejection was for lack of a resource, which the kubelet counts differently from
// what the API shows.
func Insufficient(rejection string) bool { return strings.HasPrefix(rejection, insufficientWord) }
