package state_test

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

func TestPlacementHashIsOfSpecAndLabels(t *testing.T) {
	hash := func(change func(*corev1.Pod)) uint64 {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "web", UID: "1", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{"a": "b", "c": "d"},
		}}
		change(p)
		return state.NewPod(p).PlacementHash()
	}
	plain := hash(func(*corev1.Pod) {})
	// It is in the ledger: with another number, every reservation that members of two releases handle would be
	// fenced.
	if want := uint64(0xd0033327f680eb4b); plain != want {
		t.Errorf("the hash is %#x, want %#x", plain, want)
	}
	for name, change := range map[string]func(*corev1.Pod){
		"resourceVersion": func(p *corev1.Pod) { p.ResourceVersion = "8" },
		"annotation":      func(p *corev1.Pod) { p.Annotations = map[string]string{"a": "b"} },
		"nomination":      func(p *corev1.Pod) { p.Status.NominatedNodeName = "n" },
	} {
		if got := hash(change); got != plain {
			t.Errorf("another %s is another hash", name)
		}
	}
	for name, change := range map[string]func(*corev1.Pod){
		"generation":   func(p *corev1.Pod) { p.Generation++ },
		"value":        func(p *corev1.Pod) { p.Labels["a"] = "e" },
		"label less":   func(p *corev1.Pod) { delete(p.Labels, "a") },
		"same letters": func(p *corev1.Pod) { p.Labels = map[string]string{"a": "bc", "": "d"} },
	} {
		if hash(change) == plain {
			t.Errorf("%s: the hash is the same", name)
		}
	}
}
