package state

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// FullAnnotation is on a pod, as facts and snapshots have it, whose annotations have no room for
// events.AttemptAnnotation; its value says why. The API server has no such annotation. The annotations that facts
// show do not tell: Strip takes the last-applied one away, often the longest.
const FullAnnotation = "berth.dev/annotations-full"

// AttemptCondition is the type of the condition that stands for events.AttemptAnnotation where that has no room. Its
// message is the token, a space, and the node.
const AttemptCondition corev1.PodConditionType = events.AttemptAnnotation

// tokenDigits is how long a token is, attemptRoom what an attempt annotation takes: its key and a token.
const (
	tokenDigits = 16
	attemptRoom = len(events.AttemptAnnotation) + tokenDigits
)

// MarkFull puts FullAnnotation on a pod whose annotations have no room. Nothing checks that on a bind, but on every
// later write: the kubelet could not report the pod's state, nor the eviction API evict it.
func MarkFull(pod metav1.Object) {
	annotations := pod.GetAnnotations()
	total := attemptRoom
	for name, value := range annotations {
		if name != events.AttemptAnnotation { // it is written over
			total += len(name) + len(value)
		}
	}
	if total > validation.TotalAnnotationSizeLimitB {
		annotations[FullAnnotation] = "an attempt has no room beside them"
	}
}

// AnnotationsFull reports whether the pod's annotations have no room for the token of an attempt.
func (p *Pod) AnnotationsFull() bool { return p.Annotation(FullAnnotation) != "" }

// Attempt is the token of the attempt that has placed the pod where it is; empty if it is not bound, or not by
// Berth.
//
// An annotation that is a token goes before the condition. The condition may be of an attempt before, whose fence was
// of a version that did not know it. The annotation cannot: a bind writes it over, unless the annotations are full,
// and with one that is as long as a token they are not.
//
// It is not to be trusted where the pod's owner may gain by another one: annotations are the owner's.
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

// isToken reports whether ledger.ParseToken takes it.
func isToken(s string) bool {
	_, err := strconv.ParseUint(s, 16, 64)
	return err == nil && len(s) == tokenDigits
}
