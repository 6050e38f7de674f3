//go:build e2e

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/test/e2e/harness"
)

var (
	churnFor     = flag.Duration("churn-for", 0, "how long nodes come and go in TestLedgerShrinks; 0: a few rounds")
	collectAfter = flag.Duration("collect-after", 5*time.Second, "how long its binders keep empty documents")
)

const (
	// spots is how many nodes come and go in a round, with as many disruption budgets and claims for one pod.
	spots = 10
	// churnRounds are enough to distinguish a ledger that grows with every round from one that has grown once.
	churnRounds = 3
	// mostPerRound bounds the keys of a round: for each node its document and its name's incarnation, a
	// document for each budget, two for each claim (by name and by UID), a plan for each pod that is given a place; the
	// documents of the node that has followed another one under its name; and the floor.
	mostPerRound = spots*(2+1+2+1) + 1 + 1
)

// churn is a cluster whose nodes, disruption budgets and claims come and go.
type churn struct {
	*fleet
	ns string
	// baseline are the keys of the ledger while there are only the nodes that stay.
	baseline harness.KeyCounts
}

// Nodes, disruption budgets and claims for one pod come, have documents in the ledger, and are deleted. However many
// were deleted, the ledger is as small as before them: every document is collected, and so are the names of nodes.
func TestLedgerShrinks(t *testing.T) {
	t.Parallel()
	c := newChurn(t)
	begin, round := time.Now(), 0
	for ; round < churnRounds || time.Since(begin) < *churnFor; round++ {
		c.come(round)
		c.documented(round)
		c.leave()
		c.collected(round)
	}
	history, err := c.etcd.Ledger(t.Context())
	c.must(err)
	most, peak := peakOf(history)
	lasting := total(c.baseline)
	t.Logf("%d rounds in %s: %d keys before them, at most %d: %v",
		round, time.Since(begin).Round(time.Second), lasting, most, peak)
	if limit := lasting + mostPerRound; most > limit {
		t.Errorf("at most %d keys (%v), want no more than %d: %d of what stays and %d of one round",
			most, peak, limit, lasting, mostPerRound)
	}
	c.audit()
}

func newChurn(t *testing.T) *churn {
	t.Helper()
	s := newStack(t, "")
	s.provisioner()
	f := &fleet{stack: s, members: map[string]*harness.Berth{}}
	f.etcd = f.store("etcd")
	f.etcdURL, f.natsURL = f.etcd.URL, f.store("nats").URL
	c := &churn{fleet: f}
	for i := range 2 {
		f.start("queue", fmt.Sprintf("queue-%d", i))
		f.start("scheduler", fmt.Sprintf("scheduler-%d", i))
		f.start("binder", fmt.Sprintf("binder-%d", i), "--collect-after", collectAfter.String())
	}
	c.ns = s.namespace("churn")
	s.priorityClass("low", 10)
	s.priorityClass("high", 1000)
	s.class("now", diskProvisioner, storagev1.VolumeBindingImmediate, nil)
	s.addNodes(laboratory("lasting"), laboratory("replaced"))
	s.create(newPod(c.ns, "lasting", "10m", selecting(lab, "lasting")), newPod(c.ns, "replaced", "10m",
		selecting(lab, "replaced")))
	s.bound(c.ns, 2, placedWithin)
	c.baseline = f.waitHandedOver().Under
	// The document that a namespace's budgets share comes with the first claim, and stays as long as the namespace.
	c.baseline.Add(ledger.PrefixBudget, 1)
	t.Logf("what stays: %v", c.baseline)
	return c
}

// laboratory is a node that pods can be sent to by its name.
func laboratory(name string) nodeSpec {
	return nodeSpec{name: name, labels: map[string]string{lab: name}}
}

// come has new nodes, each with a pod that a disruption budget covers, which then has to leave for a more important
// pod, and with a pod that has a claim for one. And one node is replaced by another of its name.
func (c *churn) come(round int) {
	c.Helper()
	spot := fmt.Sprintf("spot-%d", round)
	nodes := make([]nodeSpec, spots)
	for i := range nodes {
		nodes[i] = nodeSpec{name: fmt.Sprintf("%s-%d", spot, i), capacity: "2", labels: map[string]string{lab: spot}}
	}
	c.addNodes(nodes...)
	victims := newPods(c.ns, "victim", spots, "1500m", selecting(lab, spot), ofPriority("low"))
	holders := newPods(c.ns, "holder", spots, "10m", selecting(lab, spot), withClaim(""))
	for i := range spots {
		c.claim(c.ns, holders[i].Name, "now", corev1.ReadWriteOncePod)
		victims[i].Labels = map[string]string{app: victims[i].Name}
		c.budget(victims[i].Name)
	}
	c.create(append(victims, holders...)...)
	c.bound(c.ns, 2+2*spots, placedWithin)
	c.budgetsAllow(1)
	c.create(newPods(c.ns, "urgent", spots, "1500m", selecting(lab, spot), ofPriority("high"))...)
	c.replace()
	// The victims are gone; the holders and the urgent pods are left.
	c.bound(c.ns, 2+2*spots, placedWithin)
	for i := range spots {
		c.nodeOf(c.ns, fmt.Sprintf("urgent-%04d", i))
	}
}

// budget makes a disruption budget for the one pod of an app, which may be evicted.
func (c *churn) budget(name string) {
	c.Helper()
	_, err := c.client.PolicyV1().PodDisruptionBudgets(c.ns).Create(c.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: matching(name), MinAvailable: new(intstr.FromInt32(0))},
	}, metav1.CreateOptions{})
	c.must(err)
}

// budgetsAllow waits until the status of every budget allows so many disruptions.
func (c *churn) budgetsAllow(n int32) {
	c.Helper()
	c.eventually(placedWithin, "the disruption budgets have room", func(ctx context.Context) (string, error) {
		list, err := c.client.PolicyV1().PodDisruptionBudgets(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		for _, b := range list.Items {
			if b.Status.DisruptionsAllowed != n {
				return fmt.Sprintf("%s allows %d", b.Name, b.Status.DisruptionsAllowed), nil
			}
		}
		return "", nil
	})
}

// replace deletes a node and registers another one of its name, with a pod on each.
func (c *churn) replace() {
	c.Helper()
	c.deletePods(c.ns, "replaced")
	c.must(c.client.CoreV1().Nodes().Delete(c.Context(), "replaced", metav1.DeleteOptions{}))
	c.addNodes(laboratory("replaced"))
	c.create(newPod(c.ns, "replaced", "10m", selecting(lab, "replaced")))
	c.nodeOf(c.ns, "replaced")
}

// documented checks that the objects of this round have documents: otherwise the test of their collection would be
// void.
func (c *churn) documented(round int) {
	c.Helper()
	size, err := c.etcd.Size(c.Context())
	c.must(err)
	c.Logf("round %d: %d keys, %v", round, size.Keys, size.Under)
	for _, prefix := range []string{ledger.PrefixNode, ledger.PrefixIncarnation, ledger.PrefixBudget, "x/"} {
		if got, want := size.Under[prefix], c.baseline[prefix]+spots; got < want {
			c.Errorf("round %d: %d keys under %s, want %d or more while everything is there", round, got, prefix, want)
		}
	}
}

// leave deletes the objects of a round, and waits until they are gone from Kubernetes and from all promises.
func (c *churn) leave() {
	c.Helper()
	coming := metav1.ListOptions{FieldSelector: "metadata.name!=lasting,metadata.name!=replaced"}
	now := metav1.DeleteOptions{GracePeriodSeconds: new(int64)}
	core := c.client.CoreV1()
	c.must(core.Pods(c.ns).DeleteCollection(c.Context(), now, coming))
	c.must(c.client.PolicyV1().PodDisruptionBudgets(c.ns).DeleteCollection(c.Context(), now, metav1.ListOptions{}))
	c.must(core.PersistentVolumeClaims(c.ns).DeleteCollection(c.Context(), now, metav1.ListOptions{}))
	c.eventually(placedWithin, "pods and claims are gone", func(ctx context.Context) (string, error) {
		claims, err := core.PersistentVolumeClaims(c.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return "", err
		}
		if pods := len(c.pods(c.ns)); pods > 2 || len(claims.Items) > 0 {
			return fmt.Sprintf("%d pods and %d claims", pods, len(claims.Items)), nil
		}
		return "", nil
	})
	c.must(core.Nodes().DeleteCollection(c.Context(), now, coming))
	c.noClaims(c.fleet)
	c.waitHandedOver()
}

// collected waits until the ledger is as it was before the first round.
func (c *churn) collected(round int) {
	c.Helper()
	begin := time.Now()
	var size harness.LedgerSize
	within := placedWithin + 2*(*collectAfter)
	c.eventually(within, "what is gone has left the ledger", func(ctx context.Context) (_ string, err error) {
		if size, err = c.etcd.Size(ctx); err != nil {
			return "", err
		}
		size.Under.Add(ledger.KeyFloor, -size.Under[ledger.KeyFloor]) // is there once something has been collected
		if maps.Equal(size.Under, c.baseline) {
			return "", nil
		}
		return fmt.Sprintf("%v, want %v", size.Under, c.baseline), nil
	})
	c.Logf("round %d: %d keys after %s, %v", round, size.Keys, time.Since(begin).Round(time.Millisecond), size.Under)
}

func total(keys harness.KeyCounts) (n int) {
	for _, of := range keys {
		n += of
	}
	return n
}

// peakOf returns the most keys that a ledger has had at any of its revisions, and which.
func peakOf(history []ledger.Event) (most int, peak harness.KeyCounts) {
	there, counts := map[string]bool{}, harness.KeyCounts{}
	for i, e := range history {
		if there[e.Key] == e.Deleted {
			counts.Add(e.Key, map[bool]int{false: 1, true: -1}[e.Deleted])
		}
		there[e.Key] = !e.Deleted
		if last := i+1 == len(history) || history[i+1].ModRevision != e.ModRevision; !last {
			continue
		}
		if n := total(counts); n > most {
			most, peak = n, maps.Clone(counts)
		}
	}
	return most, peak
}
