package bench

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
)

func TestPodWatchNotesWhatHappensFirst(t *testing.T) {
	b := newPodWatch(1)
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p"}}
	b.note(watch.Added, pod, at(1))
	pod = pod.DeepCopy()
	pod.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionFalse}}
	b.note(watch.Modified, pod, at(2))
	if len(b.Pods("ns")) != 0 {
		t.Error("a pod without a node counts as bound")
	}
	pod = pod.DeepCopy()
	pod.Spec.NodeName = "n"
	b.note(watch.Modified, pod, at(3))
	b.note(watch.Modified, pod, at(4))
	select {
	case <-b.wanted:
	default:
		t.Error("one pod is bound, and Wait waits")
	}
	got := b.Pods("ns")["p"]
	if got.Appeared != at(1) || got.Attempted != at(2) || got.Bound != at(3) {
		t.Errorf("%+v: want appeared, attempted and bound at 1, 2 and 3", got)
	}
	b.note(watch.Deleted, pod, at(5))
	if len(b.Pods("ns")) != 0 {
		t.Error("a pod that is gone is still there")
	}
}
