//go:build e2e

package e2e_test

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/test/e2e/harness"
	"github.com/berth-scheduler/berth/test/kit"
)

const (
	// smallNodes nodes have room for slots pods each, and are full at the end.
	smallNodes, slots = 5, 10
	// When the backup is taken, running pods are bound and pending ones are not; latePods fill the cluster
	// afterwards.
	running, pending, latePods = 36, 8, smallNodes*slots - 36 - 8
	// ended is how many running pods are deleted after the backup, successors how many pods come then.
	ended, successors = 12, 16
	// renewedWithin bounds the time from the restart of the API server until the ledger has begun a new generation,
	// which takes half a minute.
	renewedWithin = 90 * time.Second
)

// The runbook, when Kubernetes was restored from a backup: the API server is restarted, as it must be, and Berth is
// left alone. Pods that were bound are pending again, deleted pods are back, a deleted node is back and a newer one
// never existed. The ledger begins a new generation, and every pod is placed according to the API server's present
// state. The cluster is full at the end, so that one pod too many on a node shows.
func TestKubernetesIsRestoredFromABackup(t *testing.T) {
	t.Parallel()
	s := newStack(t, "")
	for i := range smallNodes {
		s.addNodes(nodeSpec{name: fmt.Sprintf("node-%d", i)})
	}
	f := newFleet(s)
	before := s.namespace("before")
	s.create(newPods(before, "running", running, "800m")...)
	s.bound(before, running, placedWithin)
	placed := s.backUpWithPending(f, before)
	lost := s.liveOn(f, before)

	f.restore(filepath.Join(s.dir, "backup"))
	restarted := time.Now()
	if back := s.resourceVersion(); back >= lost {
		t.Fatalf("Kubernetes is at resourceVersion %d, and was at %d: it has not gone back", back, lost)
	}
	s.create(newPods(s.namespace("afterwards"), "pod", latePods, "800m")...)
	f.renewed()
	t.Logf("the ledger has begun anew %s after the restart", time.Since(restarted).Round(time.Second))
	s.bound(before, running+pending, placedWithin)
	s.bound("afterwards", latePods, placedWithin)
	t.Logf("all pods are bound %s after the restart", time.Since(restarted).Round(time.Second))
	for uid, node := range placed {
		if now := s.places(before)[uid]; now != node {
			t.Errorf("pod %s was on %s when the backup was taken, and is on %q", uid, node, now)
		}
	}
	f.waitHandedOver()
	full := s.namespace("full")
	s.create(newPods(full, "pod", 1, "800m")...)
	s.unschedulable(full, "pod-0000", "Insufficient cpu")
	s.audit()
}

// backUpWithPending takes a backup while pods are pending, and returns the nodes of the bound ones.
func (s *stack) backUpWithPending(f *fleet, ns string) map[types.UID]string {
	s.Helper()
	placed := s.places(ns)
	f.signal("binder", syscall.SIGSTOP)
	s.create(newPods(ns, "pending", pending, "800m")...)
	s.must(s.cluster.BackUp(filepath.Join(s.dir, "backup")))
	for uid, node := range s.places(ns) {
		if node != placed[uid] {
			s.Fatalf("pod %s is bound to %s while the backup is taken", uid, node)
		}
	}
	f.signal("binder", syscall.SIGCONT)
	return placed
}

// liveOn changes the cluster after the backup: pods are bound, pods are deleted and others take their room, one node is
// added and one is deleted. It returns how far Kubernetes has come by that.
func (s *stack) liveOn(f *fleet, ns string) uint64 {
	s.Helper()
	s.bound(ns, running+pending, placedWithin)
	var gone []string
	for _, pod := range newPods(ns, "running", ended, "800m") {
		gone = append(gone, pod.Name)
	}
	s.deletePods(ns, gone...)
	after := s.namespace("after")
	s.create(newPods(after, "pod", successors, "800m")...)
	s.bound(after, successors, placedWithin)
	s.addNodes(nodeSpec{name: "added", labels: map[string]string{"since": "the-backup"}})
	s.create(newPods(after, "on-added", slots, "800m", selecting("since", "the-backup"))...)
	s.bound(after, successors+slots, placedWithin)
	s.must(s.client.CoreV1().Nodes().Delete(s.Context(), "node-0", metav1.DeleteOptions{}))
	f.waitHandedOver()
	return s.resourceVersion()
}

// places are the nodes of the pods of a namespace that are bound, by UID.
func (s *stack) places(ns string) map[types.UID]string {
	s.Helper()
	nodes := map[types.UID]string{}
	for _, pod := range s.pods(ns) {
		if pod.Spec.NodeName != "" {
			nodes[pod.UID] = pod.Spec.NodeName
		}
	}
	return nodes
}

// resourceVersion is how far Kubernetes is.
func (s *stack) resourceVersion() uint64 {
	s.Helper()
	list, err := s.client.CoreV1().Pods(corev1.NamespaceDefault).List(s.Context(), metav1.ListOptions{})
	s.must(err)
	version, err := strconv.ParseUint(list.ResourceVersion, 10, 64)
	s.must(err)
	return version
}

// signal sends a signal to both replicas of a service.
func (f *fleet) signal(service string, s syscall.Signal) {
	f.Helper()
	for i := range 2 {
		f.must(f.members[fmt.Sprintf("%s-%d", service, i)].Signal(s))
	}
}

// restore puts the backup in the place of Kubernetes. What the recording of the ledger has of the API server is not
// true any more then, so it ends before, and another one begins.
func (f *fleet) restore(backup string) {
	f.Helper()
	f.must(f.recorded[f.etcdURL].Stop(f.Context()))
	f.must(f.cluster.Restore(f.Context(), backup))
	history, err := programs.Record(f.Context(), harness.HistoryConfig{
		Kubeconfig: f.cluster.Kubeconfig, Etcd: f.etcdURL, Dir: f.dir, Name: "record-restored",
	})
	f.must(err)
	f.recorded[f.etcdURL] = history
	kit.AtEnd(f.T, func(ctx context.Context) error { return f.replay(ctx, history) })
}

// renewed waits until the ledger has a second generation that is open, and a queue reports that it has begun it.
func (f *fleet) renewed() {
	f.Helper()
	f.eventually(renewedWithin, "the ledger begins anew", func(ctx context.Context) (string, error) {
		g, err := f.etcd.Generation(ctx)
		if err != nil || g.Number == 2 && g.Open {
			return "", err
		}
		return fmt.Sprintf("generation %d, open: %t, reason: %q", g.Number, g.Open, g.Reason), nil
	})
	begun := 0.0
	for _, name := range []string{"queue-0", "queue-1"} {
		n, err := f.members[name].Metric(f.Context(), "berth_ledger_generations_total")
		f.must(err)
		begun += n
	}
	if begun != 1 {
		f.Errorf("the queues have begun %.0f generations, want 1: BerthLedgerBeginsAnew", begun)
	}
}
