package state_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/pkg/state/strip"
)

// TestLabelsThatAreCut: known labels decide, and for unknown ones either answer is assumed.
func TestLabelsThatAreCut(t *testing.T) {
	whole := map[string]string{"app": "web"}
	cut := map[string]string{"app": "web", strip.LabelsCut: ""}
	for _, test := range []struct {
		selector           string
		whole, may, mustBe bool
	}{
		{"", true, true, true},
		{"app=web", true, true, true},
		{"app=db", false, false, false},
		{"app!=web", false, false, false},
		{"tier=x", false, true, false},
		{"tier", false, true, false},
		{"!tier", true, true, false},
		{"tier!=x", true, true, false},
		{"app=web,tier=x", false, true, false},
		{"app=db,tier=x", false, false, false},
	} {
		s, err := labels.Parse(test.selector)
		if err != nil {
			t.Fatal(err)
		}
		if state.MayMatch(s, whole) != test.whole || state.MustMatch(s, whole) != test.whole {
			t.Errorf("%q: whole labels are matched otherwise than by the selector", test.selector)
		}
		if may, must := state.MayMatch(s, cut), state.MustMatch(s, cut); may != test.may || must != test.mustBe {
			t.Errorf("%q: may match %t, must match %t, want %t and %t", test.selector, may, must, test.may, test.mustBe)
		}
	}
	if state.MayMatch(labels.Nothing(), cut) {
		t.Error("no selector matches")
	}
}

// TestStripTakesTheMarkFromWholeObjects: only Reduce marks labels as cut.
func TestStripTakesTheMarkFromWholeObjects(t *testing.T) {
	pod := statetest.Pod("default", "a")
	pod.Labels = map[string]string{"app": "web", strip.LabelsCut: ""}
	pod.Annotations = map[string]string{strip.TooLargeAnnotation: "forged"}
	strip.Strip(pod)
	if _, marked := pod.Labels[strip.LabelsCut]; marked || pod.Labels["app"] != "web" {
		t.Errorf("labels are %v", pod.Labels)
	}
	pod.Labels = many()
	if !isReduced(t, pod) {
		t.Fatal("still too large")
	}
	strip.Strip(pod)
	if _, marked := pod.Labels[strip.LabelsCut]; !marked {
		t.Error("a reduced pod that is stripped again has lost the mark")
	}
}
