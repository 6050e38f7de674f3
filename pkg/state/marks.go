package state

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// FullAnnotation is on a pod, in facts and snapshots, whose annotations have no room for events.AttemptAnnotation;
// its value is the reason. The API server does not have this annotation. The annotations in the facts alone do not
// show that there is no room: Strip removes the last-applied one, which is often the longest.
const FullAnnotation = "berth.dev/annotations-full"

// AttemptCondition is the type of the condition that replaces events.AttemptAnnotation where that has no room. Its
// message is the token, a space, and the node.
const AttemptCondition corev1.PodConditionType = events.AttemptAnnotation

// tokenDigits is the length of a token, attemptRoom the size of an attempt annotation: its key and a token.
const (
	tokenDigits = 16
	attemptRoom = len(events.AttemptAnnotation) + tokenDigits
)

// MarkFull puts FullAnnotation on a pod whose annotations have no room. A bind does not check the size limit of
// annotations, but every later write does: the kubelet could not report the pod's status, and the eviction API
// could not evict the pod.
func MarkFull(pod metav1.Object) {
	annotations := pod.GetAnnotations()
	total := attemptRoom
	for name, value := range annotations {
		if name != events.AttemptAnnotation { // it is overwritten
			total += len(name) + len(value)
		}
	}
	if total > validation.TotalAnnotationSizeLimitB {
		annotations[FullAnnotation] = "an attempt has no room beside them"
	}
}

// AnnotationsFull reports whether the pod's annotations have no room for the token of an attempt.
func (p *Pod) AnnotationsFull() bool { return p.Annotation(FullAnnotation) != "" }

// Attempt returns the token of the attempt that has placed the pod where it is; empty if it is not bound, or not by
// Berth.
//
// An annotation that is a token takes precedence over the condition. The condition may come from an earlier
// attempt, whose fence was by a version that did not know it. The annotation cannot: a bind overwrites it, unless
// the annotations are full, and with one that is as long as a token they are not.
//
// Do not trust it where the pod's owner may gain by another token: the owner controls the annotations.
func (p *Pod) Attempt() string {
	if p.NodeName == "" {
		return ""
	}
	annotation := p.Annotation(events.AttemptAnnotation)
	if isToken(annotation) {
		return annotation
	}
	for _, c := range p.Status().Conditions {
		if token, node, ok := strings.Cut(c.Message, " "); c.Type == AttemptCondition && ok && node == p.NodeName {
			return token
		}
	}
	return annotation
}

// isToken reports whether ledger.ParseToken accepts s.
func isToken(s string) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return err == nil && len(s) == tokenDigits
}
