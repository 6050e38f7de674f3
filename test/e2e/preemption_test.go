//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Low-priority pods fill two nodes, and a more important one arrives: one of them is evicted,
// the pod is nominated to its node while it stops, and runs there afterwards.
func TestImportantPodGetsAPlace(t *testing.T) {
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"}, nodeSpec{name: "node-1", capacity: "4"})
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	berth := s.up(harness.UpConfig{Shards: 2, Binders: 2, Args: []string{"--etcd-endpoints", f.etcd.URL}})
	ns := s.namespace("preemption")
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	const fillers = 4
	s.create(newPods(ns, "filler", fillers, "1500m", ofPriority("low"), gracePeriod(1))...)
	s.bound(ns, fillers, placedWithin)

	begin := time.Now()
	s.create(newPod(ns, "urgent", "1500m", ofPriority("high")))
	nominated := ""
	s.eventually(placedWithin, "urgent is bound", func(ctx context.Context) (string, error) {
		pod := s.pod(ns, "urgent")
		if pod.Status.NominatedNodeName != "" {
			nominated = pod.Status.NominatedNodeName
		}
		if pod.Spec.NodeName == "" {
			return "nominated to " + nominated + ": " + conditionOf(pod).Message, nil
		}
		return "", nil
	})
	took := time.Since(begin)
	node := s.pod(ns, "urgent").Spec.NodeName
	if nominated != node {
		t.Errorf("nominated to %q and bound to %s", nominated, node)
	}
	if left := s.gone(ns, "filler", fillers); left != fillers-1 {
		t.Errorf("%d of %d low-priority pods are left, want one evicted", left, fillers)
	}
	s.preempted(ns, node)
	for metric, want := range map[string]float64{
		"scheduler_preemption_attempts_total": 1, "scheduler_preemption_victims_count": 1,
		`berth_plans_total{what="promoted"}`: 1,
	} {
		name, label, _ := strings.Cut(metric, "{")
		labels := []string{}
		if label != "" {
			labels = append(labels, strings.TrimSuffix(label, "}"))
		}
		got, err := berth.Metric(s.Context(), name, labels...)
		s.no(err)
		if got < want {
			t.Errorf("%s is %.0f, want %.0f", metric, got, want)
		}
	}
	s.noClaims(f)
	t.Logf("bound to %s after %s", node, took.Round(time.Millisecond))
	s.audit()
}

// gone counts the pods with a prefix that are there and not being deleted.
func (s *stack) gone(ns, prefix string, all int) (left int) {
	s.Helper()
	for _, p := range s.pods(ns) {
		if strings.HasPrefix(p.Name, prefix) && p.DeletionTimestamp == nil {
			left++
		}
	}
	return left
}

// preempted waits for the event of a victim's.
func (s *stack) preempted(ns, node string) {
	s.Helper()
	s.eventually(placedWithin, "a Preempted event", func(ctx context.Context) (string, error) {
		events, err := s.client.EventsV1().Events(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		reasons := map[string]int{}
		for _, e := range events.Items {
			reasons[e.Reason]++
			if e.Reason == "Preempted" && strings.Contains(e.Note, node) && e.Action == "Preempting" {
				return "", nil
			}
		}
		return fmt.Sprintf("events %v", reasons), nil
	})
}

// noClaims waits until nothing of any plan is left in the ledger.
func (s *stack) noClaims(f *fleet) {
	s.Helper()
	s.eventually(placedWithin, "nothing of a plan is left in the ledger", func(ctx context.Context) (string, error) {
		history, err := f.etcd.Ledger(ctx)
		if err != nil {
			return "", err
		}
		last := map[string]ledger.Event{}
		for _, ev := range history {
			last[ev.Key] = ev
		}
		left := ""
		for _, ev := range last {
			of, err := claimed(ev)
			if err != nil {
				return "", err
			}
			left += of
		}
		return left, nil
	})
}

// claimed says what a value of the ledger has of plans.
func claimed(ev ledger.Event) (string, error) {
	left := ""
	switch {
	case ev.Deleted:
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		d, err := ledger.DecodeNodeDoc(ev.KV)
		if err != nil {
			return "", err
		}
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim || e.State == ledger.Held {
				left += fmt.Sprintf(" %s of %s on %s", e.Role, e.Name, d.NodeName)
			}
		}
	case strings.HasPrefix(ev.Key, ledger.PrefixBudget):
		b, err := ledger.DecodeBudget(ev.KV)
		if err != nil {
			return "", err
		}
		if len(b.Claims) > 0 {
			left += fmt.Sprintf(" %d claims of budget %s", len(b.Claims), b.Name)
		}
	}
	return left, nil
}

func (s *stack) priorityClass(name string, value int32) {
	s.Helper()
	_, err := s.client.SchedulingV1().PriorityClasses().Create(s.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value,
	}, metav1.CreateOptions{})
	s.no(err)
}

func ofPriority(class string) podOption {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

func gracePeriod(seconds int64) podOption {
	return func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = &seconds }
}
