//go:build e2e

package deploy_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-scheduler/berth/pkg/state/nodemark"
)

// TestNodeMarksOpenNothingElse: with marks on nodes the binder may patch nodes, and its patch changes the marks and
// nothing else.
func TestNodeMarksOpenNothingElse(t *testing.T) {
	s := newSystem(t, "")
	s.install("overlays/ha")
	for _, o := range s.decode(s.component("node-marks", "nodemarks.yaml")) {
		s.create(o)
	}
	config, err := clientcmd.BuildConfigFromFlags("", s.kubeconfig("berth-binder"))
	s.must(err)
	binder, err := kubernetes.NewForConfig(config)
	s.must(err)
	s.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: "marked", Labels: map[string]string{"a": "b"}, Annotations: map[string]string{"example.com/of": "another"},
		},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{{Key: "dedicated", Effect: corev1.TaintEffectNoSchedule}}},
	})
	patch := func(body string) error {
		_, err := binder.CoreV1().Nodes().Patch(
			t.Context(), "marked", types.MergePatchType, []byte(body), metav1.PatchOptions{})
		return err
	}
	// A policy takes a moment to be in force.
	s.eventually(inForceWithin, "a label is refused", func(context.Context) (string, error) {
		err := patch(`{"metadata":{"labels":{"a":"c"}}}`)
		switch {
		case err == nil:
			s.must(patch(`{"metadata":{"labels":{"a":"b"}}}`))
			return "the label was changed", nil
		case strings.Contains(err.Error(), "berth-node-marks"):
			return "", nil
		}
		return err.Error(), nil
	})
	const dedicated = `{"key":"dedicated","effect":"NoSchedule"}`
	for what, body := range map[string]string{
		"a cordon":        `{"spec":{"unschedulable":true}}`,
		"another taint":   `{"spec":{"taints":[` + dedicated + `,{"key":"x","effect":"NoSchedule"}]}}`,
		"another's taint": `{"spec":{"taints":[]}}`,
		"a taint that evicts": `{"spec":{"taints":[` + dedicated +
			`,{"key":"` + nodemark.Taint + `","effect":"NoExecute"}]}}`,
		"another annotation":     `{"metadata":{"annotations":{"x":"y"}}}`,
		"another's annotation":   `{"metadata":{"annotations":{"example.com/of":"berth"}}}`,
		"an annotation's end":    `{"metadata":{"annotations":{"example.com/of":null}}}`,
		"a label":                `{"metadata":{"labels":{"a":"c"}}}`,
		"a label's end":          `{"metadata":{"labels":{"a":null}}}`,
		"a finalizer":            `{"metadata":{"finalizers":["example.com/kept"]}}`,
		"an owner":               `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"y"}]}}`,
		"the provider's machine": `{"spec":{"providerID":"x://y"}}`,
	} {
		if err := patch(body); err == nil || !strings.Contains(err.Error(), "berth-node-marks") {
			t.Errorf("%s: %v, want it refused by the policy", what, err)
		}
	}
	for _, want := range []nodemark.Marks{{Withheld: true, Kept: true}, {Kept: true}, {}} {
		s.marks(binder, "marked", want)
	}
	n, err := binder.CoreV1().Nodes().Get(t.Context(), "marked", metav1.GetOptions{})
	s.must(err)
	delete(n.Annotations, corev1.ObjectTTLAnnotationKey) // kube-controller-manager's
	if len(n.Annotations) != 1 || nodemark.Text(n) != "" || n.Spec.Taints[0].Key != "dedicated" {
		t.Errorf("taints %v, annotations %v: want what was there before", n.Spec.Taints, n.Annotations)
	}
}

// marks gives a node marks, as a client may. Other controllers may write the node at the same time.
func (s *system) marks(who kubernetes.Interface, node string, want nodemark.Marks) {
	s.Helper()
	s.eventually(inForceWithin, "the marks are "+want.String(), func(ctx context.Context) (string, error) {
		n, err := who.CoreV1().Nodes().Get(ctx, node, metav1.GetOptions{})
		if err != nil {
			return "", err
		}
		body, needed, err := nodemark.Patch(n, want)
		if err != nil || !needed {
			return "", err
		}
		_, err = who.CoreV1().Nodes().Patch(ctx, node, types.MergePatchType, body, metav1.PatchOptions{})
		if err != nil && !apierrors.IsConflict(err) {
			return "", err
		}
		return "they were just written", nil
	})
}
