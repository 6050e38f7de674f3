package nodes

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

// TestCreateTakesTheAdmissionTaintOff plays the admission plugin: every new
// node gets the not-ready taint, the described one stays.
func TestCreateTakesTheAdmissionTaintOff(t *testing.T) {
	client := fake.NewClientset()
	client.PrependReactor("create", "nodes", func(action clienttesting.Action) (bool, runtime.Object, error) {
		node, ok := action.(clienttesting.CreateAction).GetObject().(*corev1.Node)
		if ok {
			node.Spec.Taints = append(node.Spec.Taints,
				corev1.Taint{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule})
		}
		return false, nil, nil
	})
	description, err := Parse([]byte(`
groups:
- namePrefix: n-
  count: 40
  capacity: {cpu: 1, memory: 1Gi, pods: 10}
  taints: [{key: mine, effect: NoSchedule}]
`))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []Result{{Created: 40}, {Existing: 40}} {
		got, err := Create(t.Context(), client, description, false)
		if err != nil || got != want {
			t.Fatalf("the result is %+v, %v; want %+v", got, err, want)
		}
	}
	node, err := client.CoreV1().Nodes().Get(t.Context(), "n-0039", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "mine" {
		t.Errorf("the taints are %v, want the described one alone", node.Spec.Taints)
	}
}
