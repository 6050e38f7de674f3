package app

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// TestBerthMustNotPlaceItself: a pending replica would wait for itself.
func TestBerthMustNotPlaceItself(t *testing.T) {
	pod := func(name, scheduler string, own, bound bool) corev1.Pod {
		p := corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: "ns", Name: name, Labels: map[string]string{}, Annotations: map[string]string{},
			},
			Spec: corev1.PodSpec{SchedulerName: scheduler},
		}
		if own {
			p.Labels[partOf] = "berth"
		}
		if bound {
			p.Spec.NodeName = "n"
			p.Annotations[events.AttemptAnnotation] = "0123456789abcdef"
		}
		return p
	}
	full := pod("full", "other", false, false)
	full.Spec.NodeName = "n"
	full.Status.Conditions = []corev1.PodCondition{{Type: strip.AttemptCondition, Message: "0123456789abcdef n"}}
	if found := ownPods([]corev1.Pod{full, pod("bad", "other", true, false)}); len(found) != 1 {
		t.Errorf("got %v beside a pod whose attempt is a condition, want one", found)
	}
	pods := []corev1.Pod{
		pod("work", "berth", false, true), pod("good", "default-scheduler", true, false), pod("bad", "berth", true, false),
	}
	found := ownPods(pods)
	if len(found) != 1 || found[0].Objects[0] != "pod/ns/bad" || !strings.Contains(found[0].Message, `"berth"`) {
		t.Errorf("got %v, want one about bad", found)
	}
	if found := ownPods(pods[1:]); len(found) != 0 {
		t.Errorf("Berth has bound nothing under any name: %v", found)
	}
}
