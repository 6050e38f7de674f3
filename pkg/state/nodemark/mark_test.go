package nodemark_test

import (
	"encoding/json"
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	_ "github.com/berth-scheduler/berth/pkg/seedtest" // fixes the seed
	"github.com/berth-scheduler/berth/pkg/state/nodemark"
)

// node returns a node with a taint and annotations of others.
func node(annotations map[string]string) *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u", ResourceVersion: "7", Annotations: annotations},
		Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}},
	}
}

// Whatever others have set on a node, it is the same after Berth has set its marks and removed them again.
func TestMarksLeaveNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		annotations := map[string]string{"example.com/other": "x"}
		for _, key := range []string{nodemark.ScaleDownDisabled, nodemark.DoNotDisrupt} {
			if v := rapid.SampledFrom([]string{"", "true", "false", "5m"}).Draw(t, key); v != "" {
				annotations[key] = v
			}
		}
		n := node(annotations)
		want := n.DeepCopy()
		for range rapid.IntRange(0, 6).Draw(t, "changes") {
			m := nodemark.Marks{
				Withheld: rapid.Bool().Draw(t, "withheld"), Kept: rapid.Bool().Draw(t, "kept"),
			}
			apply(t, n, m)
			if got := nodemark.Read(nodemark.Text(n)); got != m {
				t.Fatalf("after %v the node has %v", m, got)
			}
			if nodemark.Set(n.DeepCopy(), m) {
				t.Fatalf("%v: a second time changes something", m)
			}
		}
		apply(t, n, nodemark.Marks{})
		if d := cmp.Diff(want, n); d != "" {
			t.Fatalf("left over (-before +after):\n%s", d)
		}
	})
}

// apply gives a node marks by the patch, and compares the result with Set's.
func apply(t *rapid.T, n *corev1.Node, m nodemark.Marks) {
	want := n.DeepCopy()
	changes := nodemark.Set(want, m)
	body, needed, err := nodemark.Patch(n, m)
	if err != nil || needed != changes {
		t.Fatalf("patch: %v, %v; want %v", needed, err, changes)
	}
	if !needed {
		return
	}
	var patch map[string]any
	if err := json.Unmarshal(body, &patch); err != nil {
		t.Fatal(err)
	}
	meta, _ := patch["metadata"].(map[string]any)
	if meta["uid"] != "u" || meta["resourceVersion"] != "7" {
		t.Fatalf("preconditions of %s", body)
	}
	raw, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := json.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	merge(object, patch)
	if raw, err = json.Marshal(object); err != nil {
		t.Fatal(err)
	}
	*n = corev1.Node{}
	if err := json.Unmarshal(raw, n); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, n); d != "" {
		t.Fatalf("patch %s (-set +patched):\n%s", body, d)
	}
}

// merge applies a JSON merge patch (RFC 7386).
func merge(object, patch map[string]any) {
	for key, value := range patch {
		part, is := value.(map[string]any)
		switch {
		case value == nil:
			delete(object, key)
		case is:
			old, _ := object[key].(map[string]any)
			if old == nil {
				old = map[string]any{}
			}
			merge(old, part)
			object[key] = old
		default:
			object[key] = value
		}
	}
}

// What an administrator takes away is not believed to be there, and what they set stays.
func TestOthersChangeMarks(t *testing.T) {
	n := node(map[string]string{nodemark.DoNotDisrupt: "true"})
	nodemark.Set(n, nodemark.Marks{Withheld: true, Kept: true})
	if n.Annotations[nodemark.Annotation] != "kept,scale-down-disabled,withheld" {
		t.Errorf("noted as %q", n.Annotations[nodemark.Annotation])
	}
	n.Spec.Taints = n.Spec.Taints[:1]
	n.Annotations[nodemark.ScaleDownDisabled] = "false"
	if got := nodemark.Text(n); got != "kept" {
		t.Errorf("text %q, want kept", got)
	}
	nodemark.Set(n, nodemark.Marks{})
	want := map[string]string{nodemark.DoNotDisrupt: "true", nodemark.ScaleDownDisabled: "false"}
	if !maps.Equal(n.Annotations, want) {
		t.Errorf("annotations %v, want %v", n.Annotations, want)
	}
	delete(n.Annotations, nodemark.DoNotDisrupt)
	n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: nodemark.Taint, Effect: corev1.TaintEffectNoExecute})
	if got := nodemark.Text(n); got != "withheld" {
		t.Errorf("a taint without a note: %q", got)
	}
}

// Facts show none of the marks, but for a note, and the same note when they are stripped again.
func TestStrip(t *testing.T) {
	plain := node(map[string]string{nodemark.DoNotDisrupt: "true"})
	n := plain.DeepCopy()
	nodemark.Set(n, nodemark.Marks{Withheld: true, Kept: true})
	for range 2 {
		nodemark.Strip(n)
		if got := n.Annotations[nodemark.FactAnnotation]; got != "kept,scale-down-disabled,withheld" {
			t.Fatalf("note %q", got)
		}
	}
	delete(n.Annotations, nodemark.FactAnnotation)
	if d := cmp.Diff(plain, n); d != "" {
		t.Errorf("(-without marks +stripped):\n%s", d)
	}
	unmarked := plain.DeepCopy()
	if nodemark.Strip(unmarked); !cmp.Equal(plain, unmarked) {
		t.Error("a node without marks is changed")
	}
}
