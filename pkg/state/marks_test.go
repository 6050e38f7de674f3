package state_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

const someToken = "00f1a2b3c4d5e6f7"

// annotated returns a pod whose annotations take that many bytes, most of them in one that Strip removes.
func annotated(bytes int) *corev1.Pod {
	pod := statetest.Pod("default", "a", "cpu", "1")
	pod.Annotations = map[string]string{"keep": "me"}
	pod.Annotations[corev1.LastAppliedConfigAnnotation] = strings.Repeat("x",
		bytes-len("keepme")-len(corev1.LastAppliedConfigAnnotation))
	return pod
}

// A pod is marked exactly when the API server would find its annotations too large together with an attempt.
func TestFullAnnotationsAreMarked(t *testing.T) {
	room := validation.TotalAnnotationSizeLimitB - len(events.AttemptAnnotation) - len(someToken)
	for _, bytes := range []int{1000, room - 1, room, room + 1, validation.TotalAnnotationSizeLimitB} {
		for name, strip := range map[string]func(*corev1.Pod){
			"Strip":    func(p *corev1.Pod) { strip.Strip(p) },
			"KeepSpec": func(p *corev1.Pod) { strip.KeepSpec(p) },
			"MarkFull": func(p *corev1.Pod) { strip.MarkFull(p) },
			"twice":    func(p *corev1.Pod) { strip.Strip(p); strip.Strip(p) },
		} {
			pod, bound := annotated(bytes), annotated(bytes)
			bound.Annotations[events.AttemptAnnotation] = someToken
			full := validation.ValidateAnnotationsSize(bound.Annotations) != nil
			strip(pod)
			if got := state.NewPod(pod).AnnotationsFull(); got != full {
				t.Errorf("%s of %d bytes: marked %t, want %t", name, bytes, got, full)
			}
		}
	}
}

// An existing attempt is overwritten, and needs no additional room.
func TestAnAttemptReplacesAnother(t *testing.T) {
	pod := annotated(validation.TotalAnnotationSizeLimitB - len(events.AttemptAnnotation) - len(someToken))
	pod.Annotations[events.AttemptAnnotation] = someToken
	if strip.Strip(pod); state.NewPod(pod).AnnotationsFull() {
		t.Error("marked as full, although the next attempt takes the place of this one")
	}
}

// The attempt of a bound pod is in the annotation, if that is a token, else in the condition for the pod's node.
func TestAttempt(t *testing.T) {
	condition := func(message string) corev1.PodCondition {
		return corev1.PodCondition{Type: strip.AttemptCondition, Status: corev1.ConditionTrue, Message: message}
	}
	for _, tc := range []struct {
		name, node, annotation, condition, want string
	}{
		{"annotation", "n", someToken, "", someToken},
		{"condition", "n", "", someToken + " n", someToken},
		{"condition beside what the owner has written", "n", "x", someToken + " n", someToken},
		{"annotation beside the condition of an attempt before", "n", someToken, "1111111111111111 n", someToken},
		{"condition of an attempt for another node", "m", "", someToken + " n", ""},
		{"not bound", "", someToken, someToken + " n", ""},
		{"not by Berth", "n", "", "", ""},
	} {
		pod := statetest.Pod("default", "a", "cpu", "1")
		pod.Spec.NodeName = tc.node
		pod.Annotations = map[string]string{events.AttemptAnnotation: tc.annotation}
		if tc.condition != "" {
			pod.Status.Conditions = []corev1.PodCondition{condition(tc.condition)}
		}
		if got := state.NewPod(pod).Attempt(); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}
