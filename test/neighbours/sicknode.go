package neighbours

import (
	"context"
	"fmt"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/test/e2e/harness"
)

const (
	// sickApp are the pods that select the node which refuses pods, one in each of as many namespaces as Berth needs to
	// blame a node for binds that are refused.
	sickApp     = "sick"
	sickTenants = 12
	// refusedWithin bounds the time until the API server enforces the policy.
	refusedWithin = 30 * time.Second
	sickPolicy    = "refuse-binds"
)

// sicken lets the API server refuse every bind to a node, as an admission webhook does that checks a node's health. It
// returns when that is enforced.
func sicken(ctx context.Context, s *Scene, node string) error {
	policies := s.Client.AdmissionregistrationV1()
	_, err := policies.ValidatingAdmissionPolicies().Create(ctx, &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: sickPolicy},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: ptr.To(admissionv1.Fail),
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create},
					Rule: admissionv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/binding"},
					},
				},
			}}},
			Validations: []admissionv1.Validation{{
				Expression: fmt.Sprintf("object.target.name != %q", node), Message: "node " + node + " takes no pods now",
			}},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	_, err = policies.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: sickPolicy},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: sickPolicy, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return err
	}
	// A pod of another scheduler, bound by hand, shows when the policy is enforced.
	return s.Eventually(ctx, refusedWithin, "binds to "+node+" are refused", func(ctx context.Context) (string, error) {
		return tryBind(ctx, s, node)
	})
}

// tryBind binds a pod of nobody's to a node, with dry run, and returns an empty text if that is refused.
func tryBind(ctx context.Context, s *Scene, node string) (missing string, err error) {
	const name = "probe"
	probe := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: workload{app: name, cpu: "1m"}.template().Spec,
	}
	probe.Spec.SchedulerName = "nobody"
	if _, err := s.Client.CoreV1().Pods(namespace).Create(ctx, probe, metav1.CreateOptions{}); err != nil &&
		!apierrors.IsAlreadyExists(err) {
		return "", err
	}
	err = s.Client.CoreV1().Pods(namespace).Bind(ctx, &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Target: corev1.ObjectReference{Kind: "Node", Name: node},
	}, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	switch {
	case err == nil:
		return "they are accepted", nil
	case !apierrors.IsInvalid(err) && !apierrors.IsForbidden(err):
		return "", err
	}
	now := metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}
	return "", s.Client.CoreV1().Pods(namespace).Delete(ctx, name, now)
}

// heal ends the refusals.
func heal(ctx context.Context, s *Scene) error {
	policies := s.Client.AdmissionregistrationV1()
	err := policies.ValidatingAdmissionPolicyBindings().Delete(ctx, sickPolicy, metav1.DeleteOptions{})
	if err != nil {
		return err
	}
	return policies.ValidatingAdmissionPolicies().Delete(ctx, sickPolicy, metav1.DeleteOptions{})
}

// createSickPods creates the pods that only the sick node suits, each in a namespace of its own.
func createSickPods(ctx context.Context, s *Scene, node string) error {
	for i := range sickTenants {
		tenant := fmt.Sprintf("tenant-%02d", i)
		if err := harness.CreateNamespace(ctx, s.Client, harness.Namespace(tenant)); err != nil {
			return err
		}
		template := workload{app: sickApp, cpu: "100m", class: lowClass}.template()
		pod := &corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec}
		pod.Name, pod.Spec.NodeSelector = sickApp, map[string]string{corev1.LabelHostname: node}
		if _, err := s.Client.CoreV1().Pods(tenant).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	return nil
}
