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
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// Low-priority pods fill two nodes, and a more important one arrives: one of them is evicted,
// the pod is nominated to its node while it stops, and runs there afterwards.
func TestImportantPodGetsAPlace(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"}, nodeSpec{name: "node-1", capacity: "4"})
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	berth := s.up(harness.UpConfig{Shards: 2, Binders: 2, Args: []string{"--etcd-endpoints", f.etcd.URL}})
	ns := s.namespace("preemption")
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	const fillers = 4
	s.create(newPods(ns, "filler", fillers, "1500m", ofPriority("low"), lingering)...)
	s.bound(ns, fillers, placedWithin)

	begin := time.Now()
	s.create(newPod(ns, "urgent", "1500m", ofPriority("high")))
	nominated := s.nominated(ns, "urgent")
	s.unschedulable(ns, "urgent", "2 Insufficient cpu.")
	victim := s.finishDeletion(ns, "filler")
	node := s.nodeOf(ns, "urgent")
	took := time.Since(begin)
	if nominated != node || victim.Spec.NodeName != node {
		t.Errorf("nominated to %q, bound to %s, for which %s has gone from %s", nominated, node, victim.Name,
			victim.Spec.NodeName)
	}
	if left := s.left(ns, "filler"); left != fillers-1 {
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
		s.must(err)
		if got < want {
			t.Errorf("%s is %.0f, want %.0f", metric, got, want)
		}
	}
	s.noClaims(f)
	t.Logf("bound to %s after %s", node, took.Round(time.Millisecond))
	s.audit()
}

// lingering keeps a deleted pod there until letGo.
func lingering(p *corev1.Pod) { p.Finalizers = []string{"berth.dev/lingers"} }

// finishDeletion finishes the deletion of the one terminating pod with a prefix, and returns it.
func (s *stack) finishDeletion(ns, prefix string) corev1.Pod {
	s.Helper()
	var victim corev1.Pod
	s.eventually(placedWithin, "a victim is being deleted", func(context.Context) (string, error) {
		for _, p := range s.pods(ns) {
			if strings.HasPrefix(p.Name, prefix) && p.DeletionTimestamp != nil {
				victim = p
				return "", nil
			}
		}
		return "none is", nil
	})
	_, err := s.client.CoreV1().Pods(ns).Patch(s.Context(), victim.Name, types.MergePatchType,
		[]byte(`{"metadata":{"finalizers":null}}`), metav1.PatchOptions{})
	s.must(err)
	return victim
}

// nominated waits until a pod is nominated and returns the node's name.
func (s *stack) nominated(ns, name string) string {
	s.Helper()
	node := ""
	s.eventually(placedWithin, name+" is nominated", func(context.Context) (string, error) {
		pod := s.pod(ns, name)
		if node = pod.Status.NominatedNodeName; node != "" {
			return "", nil
		}
		return "it is not: " + conditionOf(pod).Message, nil
	})
	return node
}

// left counts the pods with a prefix that are there and not being deleted.
func (s *stack) left(ns, prefix string) (left int) {
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

// claimed returns the part of a ledger value that concerns plans.
func claimed(ev ledger.Event) (string, error) {
	left := ""
	switch {
	case ev.Deleted:
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		d, err := codec.DecodeNodeDoc(ev.KV)
		if err != nil {
			return "", err
		}
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim || e.Role == ledger.RoleMove || e.State == ledger.Held {
				left += fmt.Sprintf(" %s of %s on %s", e.Role, e.Name, d.NodeName)
			}
		}
	case strings.HasPrefix(ev.Key, ledger.PrefixBudget):
		b, err := codec.DecodeBudget(ev.KV)
		if err != nil {
			return "", err
		}
		if len(b.Claims) > 0 {
			left += fmt.Sprintf(" %d claims of budget %s", len(b.Claims), b.Name)
		}
	}
	return left, nil
}

// priorityClass makes a class, and waits until the API server's admission has seen it.
func (s *stack) priorityClass(name string, value int32) {
	s.Helper()
	_, err := s.client.SchedulingV1().PriorityClasses().Create(s.Context(), &schedulingv1.PriorityClass{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Value: value,
	}, metav1.CreateOptions{})
	s.must(err)
	probe := newPod(metav1.NamespaceDefault, "probe", "1m", ofPriority(name))
	s.eventually(placedWithin, "pods of priority class "+name+" are admitted", func(ctx context.Context) (string, error) {
		_, err := s.client.CoreV1().Pods(probe.Namespace).Create(ctx, probe,
			metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		if err != nil {
			return err.Error(), nil
		}
		return "", nil
	})
}

func ofPriority(class string) podOption {
	return func(p *corev1.Pod) { p.Spec.PriorityClassName = class }
}

// A more important pod arrives while the victim of another one terminates: it takes the place over, and the other pod
// gets a place of its own, for which the next victim is evicted.
func TestMoreImportantPodTakesTheHeldPlace(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0", capacity: "4"})
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	s.up(harness.UpConfig{Shards: 2, Binders: 2, Args: []string{"--etcd-endpoints", f.etcd.URL}})
	ns := s.namespace("intruder")
	s.priorityClass("low", 10)
	s.priorityClass("middle", 100)
	s.priorityClass("high", 1000)
	s.create(newPods(ns, "filler", 2, "1500m", ofPriority("low"), lingering)...)
	s.bound(ns, 2, placedWithin)
	s.create(newPod(ns, "first", "1500m", ofPriority("middle")))
	s.nominated(ns, "first")
	s.eventually(placedWithin, "a victim is being deleted", func(context.Context) (string, error) {
		if s.left(ns, "filler") == 1 {
			return "", nil
		}
		return "none is", nil
	})
	s.create(newPod(ns, "second", "1500m", ofPriority("high")))
	s.nominated(ns, "second")
	s.finishDeletion(ns, "filler")
	s.nodeOf(ns, "second")
	if node := s.pod(ns, "first").Spec.NodeName; node != "" {
		t.Errorf("first is bound to %s, whose place went to the other one", node)
	}
	s.finishDeletion(ns, "filler")
	s.nodeOf(ns, "first")
	s.noClaims(f)
	s.audit()
}
