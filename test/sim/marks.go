package sim

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// The marks that binders leave on pods, and kube-apiserver's check of annotations: it checks their size when a pod is
// written, except for binds.

// factOf returns a copy of an object as the queue has it before it removes what facts do not need.
func factOf(o metav1.Object) metav1.Object {
	o = copyOf(o)
	if p, is := o.(*corev1.Pod); is {
		strip.MarkFull(p)
	}
	return o
}

// markAttempt names the attempt that binds a pod.
func markAttempt(p *corev1.Pod, e effect.Bind) {
	if !e.AnnotationsFull {
		annotate(p, effect.AnnotationAttempt, e.Token.String())
		return
	}
	setCondition(p, corev1.PodCondition{
		Type: effect.ConditionAttempt, Status: corev1.ConditionTrue, Message: e.Token.String() + " " + e.NodeName,
	})
}

// markFence is the change of a fence: an annotation, or a condition if that is refused.
func (w *world) markFence(p *corev1.Pod, value string) bool {
	p.Status.NominatedNodeName = ""
	p.Status.Conditions = slices.DeleteFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == effect.ConditionAttempt
	})
	with := p.DeepCopy()
	annotate(with, effect.AnnotationFence, value)
	if annotationsFit(with) {
		return annotate(p, effect.AnnotationFence, value)
	}
	w.hit("fence beside full annotations")
	return setCondition(p, corev1.PodCondition{
		Type: effect.ConditionFence, Status: corev1.ConditionTrue, Message: value,
	})
}

// annotationsFit reports whether the API server takes a pod with these annotations.
func annotationsFit(p *corev1.Pod) bool {
	return validation.ValidateAnnotationsSize(p.Annotations) == nil
}

// checkAnnotations is S19 for annotations: a bind leaves a pod that can still be written, by the kubelet and by the
// eviction API.
func (w *world) checkAnnotations(podUID string) {
	p, ok := w.api.pod(podUID)
	if !ok {
		return
	}
	if err := validation.ValidateAnnotationsSize(p.Annotations); err != nil {
		w.note("S19", "pod %s was bound, and the API server refuses every later write of it: %v", p.Name, err)
	}
}
