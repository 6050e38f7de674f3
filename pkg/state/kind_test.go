package state_test

import (
	"fmt"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
)

// kindDraw is what determines a kind, drawn from so few values that equal kinds occur.
type kindDraw struct {
	namespace string
	labels    map[string]string
	deleting  bool
	affinity  *corev1.Affinity
}

func drawKind(t *rapid.T, name string) kindDraw {
	term := rapid.Custom(func(t *rapid.T) corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{
			TopologyKey: rapid.SampledFrom([]string{"zone", corev1.LabelHostname}).Draw(t, "key"),
			LabelSelector: &metav1.LabelSelector{MatchLabels: rapid.MapOfN(
				rapid.SampledFrom([]string{"a", "b"}), rapid.SampledFrom([]string{"", "x"}), 0, 2).Draw(t, "selector")},
		}
	})
	terms := rapid.SliceOfN(term, 0, 2)
	d := kindDraw{
		namespace: rapid.SampledFrom([]string{"n", "nn"}).Draw(t, name+" namespace"),
		labels: rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "ab"}),
			rapid.SampledFrom([]string{"", "x"}), 0, 2).Draw(t, name+" labels"),
		deleting: rapid.Bool().Draw(t, name+" deleting"),
	}
	switch rapid.IntRange(0, 3).Draw(t, name+" affinity") {
	case 1:
		d.affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms.Draw(t, name+" terms")}}
	case 2:
		d.affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution: terms.Draw(t, name+" terms")}}
	case 3: // properties about nodes do not affect the kind
		d.affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	}
	return d
}

// pod returns a pod of the kind that is otherwise unique.
func (d kindDraw) pod(uid string) *state.Pod {
	obj := statetest.Pod(d.namespace, "pod-"+uid, "cpu", "1")
	obj.UID = types.UID(uid)
	obj.Labels = maps.Clone(d.labels)
	obj.Spec.Affinity = d.affinity.DeepCopy()
	obj.Spec.NodeName = "node-" + uid
	obj.Annotations = map[string]string{"of": uid}
	if d.deleting {
		now := metav1.Now()
		obj.DeletionTimestamp = &now
	}
	return state.NewPod(obj)
}

// rules returns the kind without properties about nodes and without redundant forms.
func (d kindDraw) rules() string {
	pod := corev1.Pod{Spec: corev1.PodSpec{Affinity: d.affinity.DeepCopy()}}
	if pod.Spec.Affinity != nil {
		pod.Spec.Affinity.NodeAffinity = nil
		if pod.Spec.Affinity.PodAffinity == nil && pod.Spec.Affinity.PodAntiAffinity == nil {
			pod.Spec.Affinity = nil
		}
	}
	data, err := pod.Marshal()
	return fmt.Sprintf("%q %v %v %q %v", d.namespace, d.labels, d.deleting, data, err)
}

// TestKind: the same kind is the same pointer, and different kinds are different pointers; the content of a kind is
// that of its pods.
func TestKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawKind(t, "a"), drawKind(t, "b")
		podA, podB := a.pod("1"), b.pod("2")
		if same := a.rules() == b.rules(); (podA.Kind == podB.Kind) != same {
			t.Fatalf("%s\n%s\nare one kind: %v", a.rules(), b.rules(), !same)
		}
		for _, p := range []*state.Pod{podA, podB} {
			k := p.Kind
			if k.Namespace != p.Namespace || k.Deleting != p.Deleting || k.Terms != p.Terms ||
				!maps.Equal(k.Labels, p.Template.Labels) || k.RequiredAntiAffinity != (len(p.RequiredAntiAffinity()) > 0) {
				t.Fatalf("pod %+v is of kind %+v", p, k)
			}
		}
	})
}

// TestKindOfTheUnknown: the kind of a pod that no fact has described is not known.
func TestKindOfTheUnknown(t *testing.T) {
	pod := state.NewPod(&corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}}})
	if pod.Kind != nil || pod.Terms == nil {
		t.Errorf("kind %v, terms %v, want no kind and terms", pod.Kind, pod.Terms)
	}
	if diff := cmp.Diff(map[string]string(nil), statetestKind().Labels); diff != "" {
		t.Errorf("no labels (-want +got):\n%s", diff)
	}
}

func statetestKind() *state.PodClass {
	obj := statetest.Pod("default", "a")
	obj.Labels = map[string]string{}
	return state.NewPod(obj).Kind
}
