//go:build e2e

package e2e_test

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	registrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// evacuator is a validating webhook for evictions that answers like KubeVirt's: it denies those of pods whose name
// begins with "vm", because it migrates them. It records all evictions, and changes nothing: a test plays the
// controller.
type evacuator struct {
	*stack
	mu struct {
		sync.Mutex
		seen []policyv1.Eviction
	}
}

// newEvacuator registers the webhook with the API server, and waits until it is called.
func newEvacuator(s *stack) *evacuator {
	s.Helper()
	e := &evacuator{stack: s}
	server := httptest.NewTLSServer(e)
	s.Cleanup(server.Close)
	fails, effects := registrationv1.Fail, registrationv1.SideEffectClassNoneOnDryRun
	_, err := s.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Create(s.Context(),
		&registrationv1.ValidatingWebhookConfiguration{
			ObjectMeta: metav1.ObjectMeta{Name: "evacuator"},
			Webhooks: []registrationv1.ValidatingWebhook{{
				Name: "evacuator.example.com", FailurePolicy: &fails, SideEffects: &effects,
				AdmissionReviewVersions: []string{"v1"},
				ClientConfig: registrationv1.WebhookClientConfig{
					URL:      new(server.URL),
					CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}),
				},
				Rules: []registrationv1.RuleWithOperations{{
					Operations: []registrationv1.OperationType{registrationv1.Create},
					Rule: registrationv1.Rule{
						APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods/eviction"},
					},
				}},
			}},
		}, metav1.CreateOptions{})
	s.must(err)
	s.create(newPod(metav1.NamespaceDefault, "vm-probe", "1m", scheduledBy("none")))
	s.eventually(placedWithin, "the webhook is called", func(ctx context.Context) (string, error) {
		err := s.client.CoreV1().Pods(metav1.NamespaceDefault).EvictV1(ctx, &policyv1.Eviction{
			ObjectMeta:    metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "vm-probe"},
			DeleteOptions: &metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}},
		})
		if err != nil && strings.Contains(err.Error(), "Eviction triggered evacuation") {
			return "", nil
		}
		return fmt.Sprint("the dry run of an eviction: ", err), nil
	})
	return e
}

// ServeHTTP implements http.Handler.
func (e *evacuator) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var review admissionv1.AdmissionReview
	var eviction policyv1.Eviction
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(review.Request.Object.Raw, &eviction); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	e.mu.Lock()
	e.mu.seen = append(e.mu.seen, eviction)
	e.mu.Unlock()
	review.Response = &admissionv1.AdmissionResponse{UID: review.Request.UID, Allowed: true}
	if strings.HasPrefix(eviction.Name, "vm") {
		review.Response.Allowed = false
		review.Response.Result = &metav1.Status{
			Code:    http.StatusTooManyRequests,
			Message: fmt.Sprintf("Eviction triggered evacuation of VMI \"%s/%s\"", eviction.Namespace, eviction.Name),
		}
	}
	if err := json.NewEncoder(w).Encode(review); err != nil {
		e.Errorf("answer to the API server: %v", err)
	}
}

// asked returns the evictions of pods with a prefix that the webhook has seen, in order.
func (e *evacuator) asked(ns, prefix string) (seen []policyv1.Eviction) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, one := range e.mu.seen {
		if one.Namespace == ns && strings.HasPrefix(one.Name, prefix) {
			seen = append(seen, one)
		}
	}
	return seen
}

// askedOnce waits until pods with a prefix are requested, and returns the eviction, which must have been no dry run.
func (e *evacuator) askedOnce(ns, prefix string) policyv1.Eviction {
	e.Helper()
	e.eventually(placedWithin, "the eviction of "+prefix+" is requested", func(context.Context) (string, error) {
		if len(e.asked(ns, prefix)) > 0 {
			return "", nil
		}
		return "it is not", nil
	})
	one := e.asked(ns, prefix)[0]
	if len(one.DeleteOptions.DryRun) > 0 || one.DeleteOptions.Preconditions == nil {
		e.Errorf("the eviction is %+v, want no dry run, and a precondition", one.DeleteOptions)
	}
	return one
}

// stillAskedOnce requires that, after a while in which a binder that repeats itself would have done so, pods with a
// prefix have been requested once.
func (e *evacuator) stillAskedOnce(ns, prefix string, after time.Duration) {
	e.Helper()
	select {
	case <-e.Context().Done():
	case <-time.After(after):
	}
	if seen := e.asked(ns, prefix); len(seen) != 1 {
		e.Errorf("%d evictions of %s were requested, want one: %+v", len(seen), prefix, seen)
	}
}

// requesting makes a pod one whose eviction can only be requested.
func requesting(p *corev1.Pod) {
	if p.Annotations == nil {
		p.Annotations = map[string]string{}
	}
	p.Annotations[state.AnnotationRequestEvictOnly] = ""
}

// annotate sets an annotation of a pod, as a controller does.
func (s *stack) annotate(ns, name, key string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:""}}}`, key)
	_, err := s.client.CoreV1().Pods(ns).Patch(
		s.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	s.must(err)
}

// allowsNothing makes a disruption budget for the pods of an app that allows nothing, and waits for its status.
func (s *stack) allowsNothing(ns, app string, pods int32) {
	s.Helper()
	_, err := s.client.PolicyV1().PodDisruptionBudgets(ns).Create(s.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: app},
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: labelled(app), MinAvailable: new(intstr.FromInt32(pods)),
		},
	}, metav1.CreateOptions{})
	s.must(err)
	s.eventually(placedWithin, "budget "+app+" counts its pods", func(ctx context.Context) (string, error) {
		b, err := s.client.PolicyV1().PodDisruptionBudgets(ns).Get(ctx, app, metav1.GetOptions{})
		if err != nil || b.Status.CurrentHealthy == pods && b.Status.DisruptionsAllowed == 0 {
			return "", err
		}
		return fmt.Sprintf("%+v", b.Status), nil
	})
}

// A pod whose eviction a webhook turns into a migration is requested once, although its budget allows nothing, and
// waited for, across a restart of all of Berth. An ordinary pod behind such a budget is not tried. Every Eviction says
// why and for whom it is created.
func TestWebhookTurnsAMoveIntoAMigration(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"})
	webhook := newEvacuator(s)
	up := harness.UpConfig{
		Policy: s.file("policy.yaml", taintPolicy), Args: []string{"--descheduling-interval", "1s"},
	}
	berth := s.up(up)
	ns := s.namespace("migrations")
	for _, name := range []string{"vm", "db", "web"} {
		s.deployment(ns, name, 1)
	}
	s.bound(ns, 3, placedWithin)
	vm := ""
	for _, p := range s.pods(ns) {
		if strings.HasPrefix(p.Name, "vm") {
			vm = p.Name
			s.annotate(ns, vm, state.AnnotationRequestEvictOnly)
		}
	}
	s.allowsNothing(ns, "vm", 1)
	s.allowsNothing(ns, "db", 1)
	s.addNodes(nodeSpec{name: "node-1"})
	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})

	const reason = "triggered by taints/RemovePodsViolatingNodeTaints: "
	for _, app := range []string{"vm", "web"} {
		one := webhook.askedOnce(ns, app)
		if got := one.Annotations; !strings.HasPrefix(got["reason"], reason) ||
			got["requested-by"] != "sigs.k8s.io/descheduler" {
			t.Errorf("annotations of the eviction of %s: %v", app, got)
		}
	}
	s.eventually(placedWithin, "the migration is counted", func(ctx context.Context) (string, error) {
		n, err := berth.Metric(ctx, "descheduler_pods_evicted_total", `result="background"`)
		if err != nil || n == 1 {
			return "", err
		}
		return fmt.Sprint(n, " are"), nil
	})
	webhook.stillAskedOnce(ns, "vm", 5*time.Second)

	berth.Kill()
	up.Name = "second"
	s.up(up)
	webhook.stillAskedOnce(ns, "vm", 15*time.Second)
	s.annotate(ns, vm, state.AnnotationEvictionInProgress)
	webhook.stillAskedOnce(ns, "vm", 5*time.Second)
	if p := s.pod(ns, vm); p.DeletionTimestamp != nil || p.Spec.NodeName != "node-0" {
		t.Errorf("%s is on %q and deleted %v during its migration", vm, p.Spec.NodeName, p.DeletionTimestamp)
	}
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), vm, metav1.DeleteOptions{}))
	s.eventually(placedWithin, "the replacement runs on node-1", func(context.Context) (string, error) {
		for _, p := range s.pods(ns) {
			if strings.HasPrefix(p.Name, "vm") && p.Name != vm && p.Spec.NodeName == "node-1" {
				return "", nil
			}
		}
		return "it does not", nil
	})
	if seen := webhook.asked(ns, "db"); len(seen) > 0 {
		t.Errorf("a pod behind a budget that allows nothing was tried: %+v", seen)
	}
	s.removeTaints("node-0") // the audit does not allow the pod that stays behind its budget
	s.audit()
}

// Preemption may choose a pod whose eviction a webhook turns into a migration. It keeps the place while the migration
// lasts, and takes no ordinary pod behind a budget that allows nothing, though that one is less important.
func TestPreemptionWaitsForAMigration(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	webhook := newEvacuator(s)
	s.up(harness.UpConfig{Binders: 2})
	ns := s.namespace("urgent")
	s.priorityClass("lowest", 5)
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	s.create(
		newPod(ns, "vm", "1500m", ofPriority("low"), requesting, ofApp("vm")),
		newPod(ns, "db", "1500m", ofPriority("lowest"), ofApp("db")),
	)
	s.bound(ns, 2, placedWithin)
	s.allowsNothing(ns, "vm", 1)
	s.allowsNothing(ns, "db", 1)

	s.create(newPod(ns, "urgent", "1500m", ofPriority("high")))
	if node := s.nominated(ns, "urgent"); node != "node-0" {
		t.Errorf("nominated to %q", node)
	}
	one := webhook.askedOnce(ns, "vm")
	if got := one.Annotations; !strings.HasPrefix(got["reason"], "PreemptionByScheduler: ") ||
		got["requested-by"] != "berth.dev/preemption" {
		t.Errorf("annotations of the eviction: %v", got)
	}
	webhook.stillAskedOnce(ns, "vm", 20*time.Second) // longer than a plan whose evictions are refused lives
	s.annotate(ns, "vm", state.AnnotationEvictionInProgress)
	webhook.stillAskedOnce(ns, "vm", 3*time.Second)
	if p := s.pod(ns, "urgent"); p.Status.NominatedNodeName != "node-0" || p.Spec.NodeName != "" {
		t.Errorf("nominated to %q and bound to %q during the migration", p.Status.NominatedNodeName, p.Spec.NodeName)
	}
	s.must(s.client.CoreV1().Pods(ns).Delete(s.Context(), "vm", metav1.DeleteOptions{}))
	if node := s.nodeOf(ns, "urgent"); node != "node-0" {
		t.Errorf("bound to %q", node)
	}
	if seen := webhook.asked(ns, "db"); len(seen) > 0 {
		t.Errorf("a pod behind a budget that allows nothing was tried: %+v", seen)
	}
	s.audit()
}
