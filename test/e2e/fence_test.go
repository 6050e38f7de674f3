//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// frozen is the message of the policies in this test.
const frozen = "this namespace is frozen"

// reportedWithin is longer than the longest pause between two tries of a fence, and than the queue takes to judge.
const reportedWithin = 2 * time.Minute

// A tenant's policies deny binds and every change of pods. Reservations are taken back all the same, because a fence
// changes the pod's status; where that is denied too, the pod's owner and the operator see the denial. When the
// policies are deleted, the pod is bound.
func TestFenceUnderPolicies(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	berth := s.up(harness.UpConfig{Shards: 1})
	ns := s.namespace("frozen")
	s.create(newPod(ns, "gated", "1", gated("example.com/never")))
	s.deny(ns, "pods", admissionv1.Update)
	s.deny(ns, "pods/binding", admissionv1.Create)
	s.create(newPod(ns, "p", "1"))
	s.eventually(placedWithin, "the pod is fenced", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, "p", metav1.GetOptions{})
		if err == nil && pod.Annotations["berth.dev/fence"] == "" {
			return "it has no mark", nil
		}
		return "", err
	})
	s.policyWarning(ns, "p", "FailedScheduling")
	if n, err := berth.Metric(s.Context(), "berth_fences_refused"); err != nil || n != 0 {
		s.Errorf("%.0f fences are refused (%v), want none: they change no pod", n, err)
	}

	s.deny(ns, "pods/status", admissionv1.Update)
	s.policyWarning(ns, "p", "FailedRelease")
	s.eventually(reportedWithin, "the metric counts it", func(ctx context.Context) (string, error) {
		if n, err := berth.Metric(ctx, "berth_fences_refused"); err != nil || n != 1 {
			return "it does not", err
		}
		return "", nil
	})
	s.eventually(reportedWithin, "status names the pod", func(context.Context) (string, error) {
		for _, warning := range s.warnings() {
			if strings.Contains(warning, "fence-refused: "+ns+"/p") && strings.Contains(warning, frozen) {
				return "", nil
			}
		}
		return "no such warning", nil
	})

	s.allow(ns, "pods/status")
	s.allow(ns, "pods/binding")
	s.eventually(reportedWithin, "the pod is bound", func(ctx context.Context) (string, error) {
		pod, err := s.client.CoreV1().Pods(ns).Get(ctx, "p", metav1.GetOptions{})
		if err == nil && pod.Spec.NodeName == "" {
			return conditionOf(pod).Message, nil
		}
		return "", err
	})
	s.eventually(placedWithin, "nothing is refused any more", func(ctx context.Context) (string, error) {
		n, err := berth.Metric(ctx, "berth_fences_refused")
		if err != nil || n != 0 || strings.Contains(strings.Join(s.warnings(), "\n"), "fence-refused") {
			return "it is", err
		}
		return "", nil
	})
	s.allow(ns, "pods")
	s.audit()
}

// policyWarning waits for a warning about a pod, with a reason, that contains the policy's message.
func (s *stack) policyWarning(ns, pod, reason string) {
	s.Helper()
	s.eventually(placedWithin, "event "+reason, func(ctx context.Context) (string, error) {
		list, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, e := range list.Items {
			if e.Reason == reason && e.Regarding.Name == pod && e.Type == corev1.EventTypeWarning &&
				strings.Contains(e.Note, frozen) {
				return "", nil
			}
		}
		return "there is none", nil
	})
}

// warnings are those of `berth status`.
func (s *stack) warnings() []string {
	s.Helper()
	r, err := programs.Command(s.Context(), "status", "--data-dir", filepath.Join(s.dir, "data"), "-o", "json")
	s.must(err)
	if r.Code != 0 {
		s.Fatalf("berth status: exit code %d: %s", r.Code, r.Stderr)
	}
	var status struct{ Services explain.Overview }
	s.must(json.Unmarshal([]byte(r.Stdout), &status))
	return status.Services.Warnings
}

// policyName is that of the policy that denies an operation on a resource in a namespace.
func policyName(ns, resource string) string { return ns + "-" + strings.ReplaceAll(resource, "/", "-") }

// deny has the API server refuse an operation on a resource in a namespace, and waits until it does.
func (s *stack) deny(ns, resource string, operation admissionv1.OperationType) {
	s.Helper()
	name, fail := policyName(ns, resource), admissionv1.Fail
	_, err := s.client.AdmissionregistrationV1().ValidatingAdmissionPolicies().Create(s.Context(),
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{
					NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: ns}},
					ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{operation},
						Rule: admissionv1.Rule{
							APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource},
						},
					}}},
				},
				Validations: []admissionv1.Validation{{Expression: "false", Message: frozen}},
			},
		}, metav1.CreateOptions{})
	s.must(err)
	_, err = s.client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings().Create(s.Context(),
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		}, metav1.CreateOptions{})
	s.must(err)
	s.eventually(placedWithin, resource+" is denied", func(ctx context.Context) (string, error) {
		if err := s.rehearse(ctx, ns, resource); err == nil || !strings.Contains(err.Error(), frozen) {
			return fmt.Sprint(err), nil
		}
		return "", nil
	})
}

// rehearse tries a change of the pod that is never bound, which the API server does not carry out.
func (s *stack) rehearse(ctx context.Context, ns, resource string) error {
	pods, try := s.client.CoreV1().Pods(ns), []string{metav1.DryRunAll}
	var err error
	switch resource {
	case "pods/binding":
		err = pods.Bind(ctx, &corev1.Binding{
			ObjectMeta: metav1.ObjectMeta{Name: "gated"}, Target: corev1.ObjectReference{Kind: "Node", Name: "nowhere"},
		}, metav1.CreateOptions{DryRun: try})
	case "pods/status":
		_, err = pods.Patch(ctx, "gated", types.MergePatchType, []byte(`{"metadata":{"annotations":{"try":"1"}}}`),
			metav1.PatchOptions{DryRun: try}, "status")
	default:
		_, err = pods.Patch(ctx, "gated", types.MergePatchType, []byte(`{"metadata":{"annotations":{"try":"1"}}}`),
			metav1.PatchOptions{DryRun: try})
	}
	return err
}

// allow takes a policy away.
func (s *stack) allow(ns, resource string) {
	s.Helper()
	name := policyName(ns, resource)
	admission := s.client.AdmissionregistrationV1()
	s.must(admission.ValidatingAdmissionPolicyBindings().Delete(s.Context(), name, metav1.DeleteOptions{}))
	s.must(admission.ValidatingAdmissionPolicies().Delete(s.Context(), name, metav1.DeleteOptions{}))
}
