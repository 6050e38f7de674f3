//go:build e2e

package deploy_test

import (
	"context"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/eventlog"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// forgedEviction: a descheduler that requests any eviction it likes gets no pod whose disruption budget forbids it:
// the binder claims from the budget, and sends allowed evictions through the eviction API.
func (s *system) forgedEviction(t *testing.T) {
	const ns = "kept"
	s.create(&corev1.Namespace{ObjectMeta: named(ns)})
	all := intstr.FromString("100%")
	_, err := s.client.PolicyV1().PodDisruptionBudgets(ns).Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: named("all"),
		Spec:       policyv1.PodDisruptionBudgetSpec{MinAvailable: &all, Selector: labels("kept")},
	}, metav1.CreateOptions{})
	s.must(err)
	from := template("kept", "100m")
	pod, err := s.client.CoreV1().Pods(ns).Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "kept", Labels: from.Labels}, Spec: from.Spec,
	}, metav1.CreateOptions{})
	s.must(err)
	s.bound(ns, 1, placedWithin)
	// Kubernetes evicts a pod that is pending regardless of budgets.
	s.eventually(placedWithin, "the pod runs", func(ctx context.Context) (string, error) {
		now, err := s.client.CoreV1().Pods(ns).Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil || now.Status.Phase == corev1.PodRunning {
			return "", err
		}
		return string(now.Status.Phase), nil
	})
	log, err := s.openLog("descheduler")
	s.must(err)
	last, err := log.Last(t.Context(), eventlog.Decisions)
	s.must(err)
	reader, err := log.Read(t.Context(), eventlog.Decisions, last+1)
	s.must(err)
	defer reader.Close()
	lie := decision(events.DecisionEvict, events.PodRef{UID: string(pod.UID), Namespace: ns, Name: pod.Name})
	_, err = log.Append(t.Context(), eventlog.Decisions, eventlog.AnySequence, lie)
	s.must(err)
	ctx, cancel := context.WithTimeout(t.Context(), placedWithin)
	defer cancel()
	for answer := events.DecisionKind(""); answer != events.DecisionEvictRefused; {
		records, err := reader.Next(ctx)
		if err != nil {
			t.Fatalf("no answer to the request: %v", err)
		}
		for _, r := range records {
			d, err := events.DecodeDecision(r)
			s.must(err)
			if d.Pod.UID != string(pod.UID) || d.Kind == events.DecisionEvict {
				continue
			}
			if answer = d.Kind; answer == events.DecisionEvicted {
				t.Fatalf("it was evicted: %s", d.Message)
			}
		}
	}
	now, err := s.client.CoreV1().Pods(ns).Get(t.Context(), pod.Name, metav1.GetOptions{})
	if err != nil || now.DeletionTimestamp != nil {
		t.Errorf("the pod leaves: %v", err)
	}
}

// forgedReservation: a shard that reserves more than any node has, for the pod that forgedPlacement left pending, is
// detected by the checks.
func (s *system) forgedReservation(t *testing.T) {
	const name = "demo-0001"
	pod, err := s.client.CoreV1().Pods("forged").Get(t.Context(), "victim", metav1.GetOptions{})
	s.must(err)
	node, err := s.client.CoreV1().Nodes().Get(t.Context(), name, metav1.GetOptions{})
	s.must(err)
	value, err := codec.EncodeNodeDoc(ledger.NodeDoc{
		NodeUID: string(node.UID), NodeName: name,
		Entries: []ledger.Entry{{
			PodUID: string(pod.UID), Namespace: pod.Namespace, Name: pod.Name,
			Role: ledger.RoleReservation, State: ledger.Committed, PodRV: 1, Token: 1, Shard: "forged", SchedulerName: scheduler,
			Requests: map[string]int64{"cpu": 1 << 30},
		}},
	})
	s.must(err)
	store, err := s.openLedger("scheduler")
	s.must(err)
	_, err = store.Commit(t.Context(), ledger.Txn{
		Puts: []ledger.Put{{Key: ledger.KeyNode(string(node.UID)), Value: value}},
	})
	s.must(err)
	args := append([]string{"check", "--kubeconfig", s.cluster.Kubeconfig}, s.ledgerFlags()...)
	result, err := programs.Command(t.Context(), args...)
	s.must(err)
	if result.Code != 1 || !strings.Contains(result.Stdout, name) {
		t.Errorf("berth check: exit code %d, want 1 and a word about %s\n%s%s",
			result.Code, name, result.Stdout, result.Stderr)
	}
}
