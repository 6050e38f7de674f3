package strip

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
)

// LabelsCut is a label that Reduce gives an object whose labels do not all have room in a fact: the object may have
// further labels. Strip removes it from every other object.
const LabelsCut = "berth.dev/labels-cut"

// FullAnnotation is on a pod, in facts and snapshots, whose annotations have no room for events.AttemptAnnotation;
// its value is the reason. The API server does not have this annotation. The annotations in the facts alone do not
// show that there is no room: Strip removes the last-applied one, which is often the longest.
const FullAnnotation = "berth.dev/annotations-full"

// AttemptCondition is the type of the condition that replaces events.AttemptAnnotation where that has no room. Its
// message is the token, a space, and the node.
const AttemptCondition corev1.PodConditionType = events.AttemptAnnotation

// TokenDigits is the length of a token, attemptRoom the size of an attempt annotation: its key and a token.
const (
	TokenDigits = 16
	attemptRoom = len(events.AttemptAnnotation) + TokenDigits
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

// TooLargeAnnotation is on an object that Reduce has reduced: its value has the original size and the limit.
const TooLargeAnnotation = "berth.dev/too-large"

// ClosedAnnotation is on a node that Reduce has cordoned, because data that decides which pods may run there has
// been cut.
const ClosedAnnotation = "berth.dev/closed"

// Reduced reports whether an object comes from Reduce. For a pod its gate shows that: the API server refuses gates
// on bound pods, so the owner of a pod that counts for other pods cannot set it.
func Reduced(obj metav1.Object) bool {
	if pod, is := obj.(*corev1.Pod); is {
		return slices.ContainsFunc(pod.Spec.SchedulingGates, IsGate(events.TooLargeGate))
	}
	_, noted := obj.GetAnnotations()[TooLargeAnnotation]
	return noted
}

// IsGate returns a predicate for the scheduling gate of a name.
func IsGate(name string) func(corev1.PodSchedulingGate) bool {
	return func(g corev1.PodSchedulingGate) bool { return g.Name == name }
}
