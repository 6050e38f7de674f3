//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

// A pod of a Deployment has to leave its node, and there is one place for its replacement. While
// the pod terminates, and its replacement cannot be made yet, others come that want that place:
// they wait, and the replacement gets it.
func TestPlaceIsKeptForTheReplacement(t *testing.T) {
	s, f := moving(t)
	ns := s.namespace("moved")
	s.oneAtATime(ns)
	s.lingeringDeployment(ns, "web", "1500m")
	if node := s.bound(ns, 1, placedWithin)[0].Spec.NodeName; node != "node-0" {
		t.Fatalf("the pod stands on %s", node)
	}
	s.addNodes(nodeSpec{name: "node-1", capacity: "4"})
	others := s.namespace("others")
	s.create(newPod(others, "filler", "2", onHost("node-1")))
	s.bound(others, 1, placedWithin)

	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.eventually(placedWithin, "the pod is being evicted", func(context.Context) (string, error) {
		return map[bool]string{true: "it is not"}[s.left(ns, "web") > 0], nil
	})
	if kept := s.keptPlaces(f); kept != " node-1" {
		t.Errorf("places are kept on%s, want node-1", kept)
	}
	const intruders = 3
	s.create(newPods(others, "intruder", intruders, "1500m")...)
	for i := range intruders {
		s.unschedulable(others, fmt.Sprintf("intruder-%04d", i), "1 Insufficient cpu")
	}
	s.letGo(ns, "web")
	s.eventually(placedWithin, "the replacement is bound", func(context.Context) (string, error) {
		for _, p := range s.pods(ns) {
			if p.DeletionTimestamp == nil && p.Spec.NodeName == "node-1" {
				return "", nil
			}
		}
		return fmt.Sprintf("%d pods", len(s.pods(ns))), nil
	})
	for _, p := range s.pods(others) {
		if strings.HasPrefix(p.Name, "intruder") && p.Spec.NodeName != "" {
			t.Errorf("%s stands on %s", p.Name, p.Spec.NodeName)
		}
	}
	s.noClaims(f)
	s.audit()
}

// The owner of a pod that is moved is scaled down before the replacement is made: the place is
// given up after a while, and somebody else gets it.
func TestPlaceIsGivenUpWhenNobodyComes(t *testing.T) {
	s, f := moving(t)
	ns := s.namespace("moved")
	s.oneAtATime(ns)
	s.lingeringDeployment(ns, "web", "1500m")
	s.bound(ns, 1, placedWithin)
	s.addNodes(nodeSpec{name: "node-1", capacity: "2"})
	s.taint("node-0", corev1.Taint{Key: "retired", Effect: corev1.TaintEffectNoSchedule})
	s.eventually(placedWithin, "the pod is being evicted", func(context.Context) (string, error) {
		return map[bool]string{true: "it is not"}[s.left(ns, "web") > 0], nil
	})
	others := s.namespace("others")
	s.create(newPod(others, "waiting", "1500m"))
	s.unschedulable(others, "waiting", "1 Insufficient cpu")
	_, err := s.client.AppsV1().Deployments(ns).Patch(s.Context(), "web", "application/merge-patch+json",
		[]byte(`{"spec":{"replicas":0}}`), metav1.PatchOptions{})
	s.no(err)
	s.letGo(ns, "web")
	// As long as the binders keep it for the replacement, and then some.
	const givenUpWithin = 4 * time.Minute
	s.bound(others, 1, givenUpWithin)
	s.noClaims(f)
	s.audit()
}

// moving is a node and a Berth that moves pods off tainted nodes.
func moving(t *testing.T) (*stack, *fleet) {
	s := newStack(t, "")
	s.addNodes(nodeSpec{name: "node-0"})
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	s.up(harness.UpConfig{
		Shards: 2, Binders: 2, Policy: s.file("policy.yaml", taintPolicy),
		Args: []string{"--etcd-endpoints", f.etcd.URL, "--descheduling-interval", "1s"},
	})
	return s, f
}

// lingeringDeployment has one pod that runs, and stays after it was deleted, until letGo. (One that
// does not run yet goes at once, and a quota does not count it.)
func (s *stack) lingeringDeployment(ns, name, cpu string) {
	s.Helper()
	pod := template(name, cpu)
	pod.Finalizers = []string{"berth.dev/lingers"}
	_, err := s.client.AppsV1().Deployments(ns).Create(s.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       appsv1.DeploymentSpec{Selector: labelled(name), Template: pod},
	}, metav1.CreateOptions{})
	s.no(err)
	s.eventually(placedWithin, "the pod runs", func(context.Context) (string, error) {
		for _, p := range s.pods(ns) {
			if p.Status.Phase == corev1.PodRunning {
				return "", nil
			}
		}
		return fmt.Sprintf("%d pods", len(s.pods(ns))), nil
	})
}

// oneAtATime lets a namespace have one pod: the replacement is made when the old one is gone.
func (s *stack) oneAtATime(ns string) {
	s.Helper()
	quotas := s.client.CoreV1().ResourceQuotas(ns)
	_, err := quotas.Create(s.Context(), &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Name: "one"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("1")}},
	}, metav1.CreateOptions{})
	s.no(err)
	s.eventually(placedWithin, "the quota is in force", func(ctx context.Context) (string, error) {
		q, err := quotas.Get(ctx, "one", metav1.GetOptions{})
		if err != nil || len(q.Status.Hard) > 0 {
			return "", err
		}
		return "its status is empty", nil
	})
}

// keptPlaces are the nodes on which places are kept for replacements, each after a space.
func (s *stack) keptPlaces(f *fleet) (kept string) {
	s.Helper()
	history, err := f.etcd.Ledger(s.Context())
	s.no(err)
	last := map[string]ledger.Event{}
	for _, ev := range history {
		last[ev.Key] = ev
	}
	for _, ev := range last {
		if ev.Deleted || !strings.HasPrefix(ev.Key, ledger.PrefixNode) {
			continue
		}
		d, err := ledger.DecodeNodeDoc(ev.KV)
		s.no(err)
		for _, e := range d.Entries {
			if e.Role == ledger.RoleMove {
				kept += " " + d.NodeName
			}
		}
	}
	return kept
}
