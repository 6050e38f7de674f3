package decide_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// movePartition gives a partition to another shard, as membership does: it is released, and then taken under a new
// epoch.
func (w *world) movePartition(partition int32, to *shard) {
	w.t.Helper()
	kvs, _, err := w.store.List(context.Background(), roster.KeyOwn(partition))
	if err != nil || len(kvs) != 1 {
		w.t.Fatalf("partition %d: %d owners, %v", partition, len(kvs), err)
	}
	release, err := roster.ReleasePartition(partition, kvs[0].CreateRevision)
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(release)
	w.takePartition(partition, to)
}

func (w *world) takePartition(partition int32, by *shard) {
	w.t.Helper()
	session, err := w.store.OpenSession(w.t.Context(), time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	take, err := roster.TakePartition(partition, roster.Owner{Member: by.id}, session.Lease())
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(take)
}

// reserve commits a reservation of a pod as the current owner of its partition would: on the newest documents, under
// the current epoch.
func (w *world) reserve(uid, node string) {
	w.t.Helper()
	partition := ledger.PartitionOf(uid)
	own, _, err := w.store.List(context.Background(), roster.KeyOwn(partition))
	if err != nil {
		w.t.Fatal(err)
	}
	w.tokens++
	doc := ledger.NodeDoc{NodeUID: "node-" + node, NodeName: node}
	for _, d := range w.docs() {
		if d.NodeName == node {
			doc = d
		}
	}
	var rv uint64
	if _, err := fmt.Sscan(w.pods[uid].ResourceVersion, &rv); err != nil {
		w.t.Fatal(err)
	}
	doc, err = txns.Place(doc, ledger.Entry{
		PodUID: uid, Namespace: "d", Name: w.pods[uid].Name, Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: rv, Token: ledger.Token(w.tokens), Shard: w.ownerOf(partition).id,
		Requests: map[string]int64{"cpu": 100},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	txn, err := txns.PlaceBatch{
		Epochs: map[int32]int64{partition: own[0].CreateRevision}, Docs: []ledger.NodeDoc{doc},
		Placed: []ledger.Token{ledger.Token(w.tokens)},
	}.Txn()
	if err != nil {
		w.t.Fatal(err)
	}
	if res := w.commit(txn); !res.Succeeded {
		w.t.Fatalf("the reservation of %s on %s was refused: %+v", uid, node, res)
	}
}

// reservedAt lists the nodes whose documents have a reservation of a pod, from each document separately.
func (w *world) reservedAt(uid string) (nodes []string) {
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleReservation && e.PodUID == uid {
				nodes = append(nodes, d.NodeName)
			}
		}
	}
	slices.Sort(nodes)
	return nodes
}

// onNode makes a pod fit on one node only.
func onNode(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name} }
}

// A pick that waits behind a transaction in flight is valid only in the epoch in which it was decided.
//
//  1. The shard stages p1 for n0, behind a transaction of p0 that has no answer yet.
//  2. The partition of p1 goes to another shard, which reserves p1 on n1.
//  3. The partition comes back, and the shard reads all of that. The document of n0 has not moved.
//  4. The answer for p0 arrives. p1 must not be reserved on n0 as well.
func TestStagedPickEndsWithItsEpoch(t *testing.T) {
	st := newScenario(t, 2, 3, 1)
	st.pod("first", onNode("n2"))
	if st.target() != "n2" {
		t.Fatalf("in flight to %q, want n2", st.target())
	}
	p1 := st.pod("second", onNode("n0"))
	partition := ledger.PartitionOf(p1)

	st.movePartition(partition, st.shards[1])
	st.reserve(p1, "n1")
	st.movePartition(partition, st.s)
	st.deliverLedger()

	st.answer()
	for st.s.commit != nil {
		st.answer()
	}
	if got := st.reservedAt(p1); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("the pod is reserved on %q, want n1 alone", got)
	}
}

// The same round trip without a reservation: the pick is given back all the same, because the reservations made in
// between may have left the documents already.
func TestPickOfAnEarlierEpochIsGivenBack(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	st.pod("first", onNode("n1"))
	p1 := st.pod("second", onNode("n0"))
	partition := ledger.PartitionOf(p1)
	st.movePartition(partition, st.shards[1])
	st.movePartition(partition, st.s)
	st.deliverLedger()
	st.answer()
	if st.s.commit != nil {
		t.Errorf("a pick of an earlier epoch was sent, to %s", st.target())
	}
	out, err := checked(st.s.core.Step(step.Input{Beat: true}, st.now))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Request.Return) != 1 || !out.Idle {
		t.Errorf("given back %q, idle %t: want the one offer", out.Request.Return, out.Idle)
	}
}

// A pod that has a reservation gets no second one, also within one epoch.
func TestReservedPodIsNotReservedAgain(t *testing.T) {
	st := newScenario(t, 1, 3, 1)
	st.pod("first", onNode("n2"))
	p1 := st.pod("second", onNode("n0"))
	st.reserve(p1, "n1")
	st.deliverLedger()
	st.answer()
	for st.s.commit != nil {
		st.answer()
	}
	if got := st.reservedAt(p1); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("the pod is reserved on %q, want n1 alone", got)
	}
}

// A lost compare returns own/ keys ahead of the watch. They do not establish ownership: the documents that belong to
// that epoch have not been read yet.
//
//  1. The partition of p1 goes to another shard, which reserves p1 on n1, and comes back. The shard
//     has read none of it, and sends p1 to n0 under the old epoch: lost, and own/ names the shard.
//  2. The pod is offered again. The shard must not place it before its watch has come so far.
func TestOwnershipIsLearnedFromTheWatchAlone(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	p1 := st.pod("second", onNode("n0"))
	if st.target() != "n0" {
		t.Fatalf("in flight to %q, want n0", st.target())
	}
	partition := ledger.PartitionOf(p1)
	st.movePartition(partition, st.shards[1])
	st.reserve(p1, "n1")
	st.movePartition(partition, st.s)
	st.answer()
	st.offerAgain(p1)
	for st.s.commit != nil {
		st.answer()
	}
	st.deliverLedger()
	if got := st.reservedAt(p1); !slices.Equal(got, []string{"n1"}) {
		t.Errorf("the pod is reserved on %q, want n1 alone", got)
	}
}

// A partition whose epoch lost a transaction no longer belongs to this shard, although its watch still shows it:
// nothing more is sent under that epoch.
func TestLostEpochIsNotTriedAgain(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	p1 := st.pod("second", onNode("n0"))
	st.movePartition(ledger.PartitionOf(p1), st.shards[1])
	st.answer()
	st.offerAgain(p1)
	if st.s.commit != nil {
		t.Error("another transaction was sent under an epoch that is known to be over")
	}
	st.deliverLedger()
	if got := st.reservedAt(p1); len(got) > 0 {
		t.Errorf("the pod is reserved on %q, want nowhere", got)
	}
}

// Partitions change hands and come back while picks are staged, answers are lost and views lag.
func TestShardsNeverOvercommitAcrossTakeOvers(t *testing.T) {
	moves := 0
	for seed := *takeOverFirst; seed < *takeOverFirst+*takeOverSeeds; seed++ {
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) {
			w := newWorld(t, seed, 2)
			for n := range 4 {
				w.addNode(fmt.Sprintf("n%d", n), 3)
			}
			for p := range 14 { // room for 12
				w.addPod(fmt.Sprintf("p%d", p))
			}
			w.settle()
			for range 300 {
				switch w.rng.IntN(14) {
				case 0:
					w.bindOne()
				case 1, 2, 3:
					w.offerOne()
				case 4:
					moves++
					w.moveSomePartition()
				default:
					w.deliver()
				}
				w.auditDocuments()
			}
			w.finish()
		})
	}
	t.Logf("%d seeds, %d partitions moved", *takeOverSeeds, moves)
}

// takeOverSeeds is how many interleavings TestShardsNeverOvercommitAcrossTakeOvers tries, takeOverFirst the seed of
// the first.
var (
	takeOverSeeds = flag.Uint64("takeover-seeds", 25, "interleavings of shards whose partitions change hands")
	takeOverFirst = flag.Uint64("takeover-first", 0, "seed of the first of them")
)

// offerOne offers one waiting pod, so that picks arrive one after the other.
func (w *world) offerOne() {
	w.offer()
	for _, s := range w.shards {
		if n := len(s.offers); n > 0 {
			i := w.rng.IntN(n)
			s.offers = s.offers[i : i+1]
		}
	}
}

// moveSomePartition hands over the partition of some pod, and half of the time hands it back at once, after a
// reservation of the pod has been made in between.
func (w *world) moveSomePartition() {
	uids := sortedPods(w.pods)
	uid := uids[w.rng.IntN(len(uids))]
	partition := ledger.PartitionOf(uid)
	from, to := w.ownerOf(partition), w.shards[w.rng.IntN(len(w.shards))]
	w.movePartition(partition, to)
	if w.rng.IntN(2) == 0 {
		return
	}
	node := fmt.Sprintf("n%d", w.rng.IntN(len(w.nodes)))
	if w.pods[uid].Spec.NodeName == "" && len(w.reservedAt(uid)) == 0 && w.promisedOn()[node] < w.nodes[node] {
		w.reserve(uid, node)
	}
	w.movePartition(partition, from)
}

// promisedOn counts, by node name, the pods that are bound there and those that may still be bound: every
// reservation of every document separately.
func (w *world) promisedOn() map[string]int64 {
	used := map[string]int64{}
	for _, p := range w.pods {
		if p.Spec.NodeName != "" {
			used[p.Spec.NodeName]++
		}
	}
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			p, lives := w.pods[e.PodUID]
			if e.Role == ledger.RoleReservation && e.State != ledger.Held && lives && p.Spec.NodeName == "" {
				used[d.NodeName]++
			}
		}
	}
	return used
}

// auditDocuments checks I1 and I2 on the stored documents.
func (w *world) auditDocuments() {
	w.t.Helper()
	for node, n := range w.promisedOn() {
		if n > w.nodes[node] {
			w.t.Fatalf("node %s is promised to %d pods, and has room for %d", node, n, w.nodes[node])
		}
	}
	for uid, p := range w.pods {
		if at := w.reservedAt(uid); p.Spec.NodeName == "" && len(at) > 1 {
			w.t.Fatalf("pod %s is reserved on %q", uid, at)
		}
	}
}
