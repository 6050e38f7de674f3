package devices

import (
	"log/slog"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourcev1 "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
)

const name = "gpu.example.com"

func node(annotations map[string]string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "n-uid", Annotations: annotations}}
}

// What a node's annotations say is in its slice, and a change gives the pool a new generation.
func TestSlicesFollowAnnotations(t *testing.T) {
	client := fake.NewClientset(node(map[string]string{name + "/devices": "gpu-0=large gpu-1=small"}))
	d := Driver{Name: name, Client: client, Logger: slog.New(slog.DiscardHandler)}
	pass := func() *resourcev1.ResourceSlice {
		t.Helper()
		if err := d.pass(t.Context()); err != nil {
			t.Fatal(err)
		}
		list, err := client.ResourceV1().ResourceSlices().List(t.Context(), metav1.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		switch len(list.Items) {
		case 0:
			return nil
		case 1:
			return &list.Items[0]
		}
		t.Fatalf("%d slices for one node", len(list.Items))
		return nil
	}
	annotate := func(annotations map[string]string) {
		t.Helper()
		if _, err := client.CoreV1().Nodes().Update(t.Context(), node(annotations), metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	first := pass()
	if first == nil || len(first.Spec.Devices) != 2 || *first.Spec.NodeName != "n" {
		t.Fatalf("slice %+v, want two devices of node n", first)
	}
	if model := first.Spec.Devices[0].Attributes[AttributeModel].StringValue; *model != "large" {
		t.Errorf("gpu-0 is of model %q, want large", *model)
	}
	if again := pass(); again.Spec.Pool.Generation != first.Spec.Pool.Generation {
		t.Error("nothing changed, and the pool has a new generation")
	}
	annotate(map[string]string{name + "/devices": "gpu-0=large", name + "/taints": "gpu-0=NoSchedule"})
	changed := pass()
	if len(changed.Spec.Devices) != 1 || len(changed.Spec.Devices[0].Taints) != 1 {
		t.Fatalf("devices %+v, want one with a taint", changed.Spec.Devices)
	}
	if changed.Spec.Pool.Generation != first.Spec.Pool.Generation+1 {
		t.Errorf("generation %d after %d", changed.Spec.Pool.Generation, first.Spec.Pool.Generation)
	}
	annotate(nil)
	if gone := pass(); gone != nil {
		t.Errorf("the node has no devices any more, and a slice %+v", gone)
	}
}

func TestAnnotationsThatMakeNoSense(t *testing.T) {
	for _, text := range []string{"gpu-0", "=large", "gpu-0="} {
		_, err := describe(name, node(map[string]string{name + "/devices": text}))
		if err == nil || !strings.Contains(err.Error(), "gpu.example.com/devices") {
			t.Errorf("%q: got %v, want an error that names the annotation", text, err)
		}
	}
}
