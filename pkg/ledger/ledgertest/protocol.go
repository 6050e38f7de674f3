package ledgertest

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// RunProtocol checks the transactions of the reservation protocol against a real store: their preconditions, their
// effects, and the answers that their losers get.
func RunProtocol(t *testing.T, open Open) {
	t.Helper()
	runAll(t, open, []contract{
		{"T1 places on every node or on none", placeAll},
		{"T1 tells losers and lets the rest through", placePartly},
		{"T1 resubmitted after a lost answer knows itself", placeTwice},
		{"T1 of a lost epoch cannot commit", placeWithoutEpoch},
		{"T1 over a moved registry cannot commit", placeOverRegistry},
		{"T1 fits a transaction or is refused", placeAtTheBounds},
		{"T1 of carriers and matchers: one of two commits", placeGuarded},
		{"T1 of matchers alone never collides", placeMatchers},
		{"T1 keeps what lost no guard", placeGuardLost},
		{"T1 pins what it relies on", placePinned},
		{"T1 holds volumes and items of pools once", placeExclusive},
		{"T2 holds, claims, pins and takes of budgets at once", nominate},
		{"T2 resubmitted after a lost answer knows itself", nominateTwice},
		{"T2 of a lost epoch, or over a moved registry or guard, cannot commit", nominateWithout},
		{"T2 refuses what contradicts it", nominateRefuses},
		{"T2 in several transactions counts when its record is ready", nominateLarge},
		{"T2 in several transactions stops where it is aborted", nominateAborted},
		{"T2 of a gang lets no pod be evicted before all members have a place", finishTogether},
		{"T3 of a gang promotes all members at one revision", promoteTogether},
		{"T2 and T1 on one node: one of two commits", nominateOrPlace},
		{"T2 and T2 on one victim: one of two commits", nominateOneVictim},
		{"T2 and T1 on one volume: one of two commits", nominateOrHold},
		{"T3 promotes when the victims are gone", promote},
		{"T4 displaces by priority, with the plan", displace},
		{"T4 and T3 on one hold: one of two commits", displaceOrPromote},
		{"T4 and the mark on a victim: one of two commits", displaceOrEvict},
		{"T8 drops what was not sent", abort},
		{"T8 and T3 on one hold: one of two commits", abortOrPromote},
		{"T8 and the mark on a victim: one of two commits", abortOrEvict},
		{"T10 claims, settles and takes back", budgets},
		{"T10 and T2 on one budget: one of two commits", settleOrNominate},
		{"T12 moves, and T1 takes the place over", move},
		{"T12 and T2 on one budget: one of two commits", moveOrNominate},
		{"two transactions on one document: either commits, not both", either},
		{"ABA: documents that look as they did are not the same", abaClaims},
		{"what nobody works on is swept", sweep},
		{"T5 hands over and raises the high-water", handOver},
		{"T6 and T7 fence", fence},
		{"T11 registers, retires and drops terms", registerTerms},
		{"guards are learned from the watch, and from what follows on it", learnGuards},
		{"T13 takes, loses and gives up partitions", own},
		{"T13 names who should hold partitions", wantMembers},
		{"the picture follows the ledger", follow},
		{"the ledger belongs to one cluster", claim},
	})
	runAll(t, open, incarnations())
}

// shard is a member that owns every partition.
type shard struct {
	h       Harness
	session ledger.Session
	epochs  map[int32]int64
	token   ledger.Token
}

func newShard(t *testing.T, h Harness, name string) *shard {
	t.Helper()
	s := &shard{h: h, session: openSession(t, h.Store), epochs: map[int32]int64{}}
	for first := int32(0); first < ledger.Partitions; first += ledger.MaxTxnOps {
		var txns []ledger.Txn
		for p := first; p < first+ledger.MaxTxnOps; p++ {
			txn, err := roster.TakePartition(p, roster.Owner{Member: name}, s.session.Lease())
			if err != nil {
				t.Fatal(err)
			}
			txns = append(txns, txn)
		}
		all, err := ledger.Merge(txns...)
		if err != nil {
			t.Fatal(err)
		}
		r := mustCommit(t, h.Store, all)
		for p := first; p < first+ledger.MaxTxnOps; p++ {
			s.epochs[p] = r
		}
	}
	return s
}

// entry returns a committed reservation with a token of its own.
func (s *shard) entry(podUID string) ledger.Entry {
	s.token++
	return ledger.Entry{
		PodUID: podUID, Namespace: "ns", Name: podUID, Role: ledger.RoleReservation, State: ledger.Committed,
		PodRV: 100, Token: s.token, Shard: "s", Requests: map[string]int64{"cpu": 100},
	}
}

// batch places one pod of that UID on each node, on documents as given or new.
func (s *shard) batch(t *testing.T, docs ...ledger.NodeDoc) txns.PlaceBatch {
	t.Helper()
	b := txns.PlaceBatch{Epochs: map[int32]int64{}}
	for _, d := range docs {
		e := s.entry(fmt.Sprintf("pod-%d-%s", s.token, d.NodeUID))
		next, err := txns.Place(d, e)
		if err != nil {
			t.Fatal(err)
		}
		b.Docs = append(b.Docs, next)
		b.Placed = append(b.Placed, e.Token)
		b.Epochs[e.Partition()] = s.epochs[e.Partition()]
	}
	return b
}

func node(uid string) ledger.NodeDoc { return ledger.NodeDoc{NodeUID: uid, NodeName: "name-" + uid} }

func txnOf(t *testing.T, b txns.PlaceBatch) ledger.Txn {
	t.Helper()
	txn, err := b.Txn()
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

func replace(t *testing.T, docs ...ledger.NodeDoc) ledger.Txn {
	t.Helper()
	txn, err := txns.Replace(docs...)
	if err != nil {
		t.Fatal(err)
	}
	return txn
}

func losers(t *testing.T, b txns.PlaceBatch, r ledger.TxnResult) txns.Outcome {
	t.Helper()
	lost, err := txns.Classify(b, r)
	if err != nil {
		t.Fatal(err)
	}
	return lost
}

// doc reads one document; it is empty when there is none.
func doc(t *testing.T, s ledger.Store, uid string) ledger.NodeDoc {
	t.Helper()
	kv, ok := get(t, s, ledger.KeyNode(uid))
	if !ok {
		return node(uid)
	}
	d, err := codec.DecodeNodeDoc(kv)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func placeAll(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"), node("b"))
	r := mustCommit(t, h.Store, txnOf(t, b))
	for i, uid := range []string{"a", "b"} {
		want := b.Docs[i]
		want.Revision = r
		if diff := cmp.Diff(want, doc(t, h.Store, uid)); diff != "" {
			t.Errorf("node %s (-want +got):\n%s", uid, diff)
		}
	}
	stale := s.batch(t, node("a"), node("c"))
	if r := commit(t, h.Store, txnOf(t, stale)); r.Succeeded {
		t.Fatal("a placement on a stale document committed")
	}
	if _, ok := get(t, h.Store, ledger.KeyNode("c")); ok {
		t.Error("half of a placement committed")
	}
}

func placePartly(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"), node("b"), node("c"))
	rival := s.batch(t, node("b"))
	at := mustCommit(t, h.Store, txnOf(t, rival))

	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if lost.Applied || lost.Registry || len(lost.Partitions) != 0 || len(lost.Docs) != 1 {
		t.Fatalf("lost %+v, want the document of b alone", lost)
	}
	want := rival.Docs[0]
	want.Revision = at
	if diff := cmp.Diff(want, lost.Docs[0]); diff != "" {
		t.Errorf("the refreshed document (-want +got):\n%s", diff)
	}
	won, ok := txns.Winners(b, lost)
	if !ok || len(won.Docs) != 2 || len(won.Placed) != 2 {
		t.Fatalf("winners: %+v, want those of a and c", won)
	}
	mustCommit(t, h.Store, txnOf(t, won))
	retry := s.batch(t, lost.Docs[0])
	mustCommit(t, h.Store, txnOf(t, retry))
	if n := len(doc(t, h.Store, "b").Entries); n != 2 {
		t.Errorf("node b has %d entries, want both shards' pods", n)
	}
}

func placeTwice(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"), node("b"))
	first := mustCommit(t, h.Store, txnOf(t, b))
	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if !lost.Applied || lost.AppliedAt != first {
		t.Fatalf("resubmitted: %+v, want applied at %d", lost, first)
	}
	next := s.batch(t, doc(t, h.Store, "a"))
	second := mustCommit(t, h.Store, txnOf(t, next))
	lost = losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if !lost.Applied || lost.AppliedAt != second {
		t.Errorf("resubmitted after a later change of a: %+v, want applied, visible at %d", lost, second)
	}
	if _, ok := txns.Winners(b, lost); ok {
		t.Error("an applied batch has winners to resubmit")
	}
}

func placeWithoutEpoch(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"), node("b"))
	lostPartition := b.Docs[0].Entries[0].Partition()
	release, err := roster.ReleasePartition(lostPartition, s.epochs[lostPartition])
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, release)
	take, err := roster.TakePartition(lostPartition, roster.Owner{Member: "s"}, s.session.Lease())
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, take)

	lost := losers(t, b, commit(t, h.Store, txnOf(t, b)))
	if !slices.Equal(lost.Partitions, []int32{lostPartition}) || len(lost.Docs) != 0 || lost.Applied {
		t.Fatalf("lost %+v, want partition %d alone", lost, lostPartition)
	}
	won, ok := txns.Winners(b, lost)
	if other := b.Docs[1].Entries[0].Partition(); other == lostPartition {
		t.Fatalf("both pods fell into partition %d", other)
	}
	if !ok || len(won.Docs) != 1 || won.Docs[0].NodeUID != "b" || won.Epochs[lostPartition] != 0 {
		t.Fatalf("winners %+v, want the document of b under its own epoch", won)
	}
	mustCommit(t, h.Store, txnOf(t, won))
	if _, ok := get(t, h.Store, ledger.KeyNode("a")); ok {
		t.Error("a decision of a lost epoch committed")
	}
}

func placeAtTheBounds(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	var docs []ledger.NodeDoc
	for _, uid := range numbered("n%03d", ledger.MaxTxnOps) {
		docs = append(docs, node(uid))
	}
	b := s.batch(t, docs...)
	for ; b.Ops() > ledger.MaxTxnOps; b = s.batch(t, docs...) {
		_, err := b.Txn()
		wantTxnError(t, fmt.Sprintf("%d operations in one transaction", b.Ops()), err)
		docs = docs[:len(docs)-1]
	}
	txn := txnOf(t, b)
	if n := len(txn.Compares); n != b.Ops() {
		t.Errorf("%d operations foretold, %d compares made", b.Ops(), n)
	}
	mustCommit(t, h.Store, txn)
	if kvs, _ := list(t, h.Store, ledger.PrefixNode); len(kvs) != len(docs) {
		t.Errorf("%d documents, want %d", len(kvs), len(docs))
	}
}

// facts is a view of the API: bound pods with their resourceVersion, unbound ones with 0; other pods are unknown.
type facts struct {
	pods     map[string]uint64
	progress uint64
}

func (f facts) PodFact(uid string) (uint64, bool, bool) {
	rv, known := f.pods[uid]
	return rv, rv != 0, known
}

func (f facts) PodProgress() uint64 { return f.progress }

func handOver(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	start, err := txns.Place(node("a"), s.entry("bound"), s.entry("deleted"), s.entry("pending"))
	if err != nil {
		t.Fatal(err)
	}
	mustCommit(t, h.Store, replace(t, start))
	view := facts{pods: map[string]uint64{"bound": 170, "pending": 0}, progress: 200}
	before := doc(t, h.Store, "a")
	after, changed := txns.Finish(before, view)
	if !changed {
		t.Fatal("nothing to hand over")
	}
	mustCommit(t, h.Store, replace(t, after))
	got := doc(t, h.Store, "a")
	if v := invariant.CheckSuccessor(before, got); len(v) > 0 {
		t.Errorf("violations: %v", v)
	}
	if len(got.Entries) != 1 || got.Entries[0].PodUID != "pending" || got.HW[ledger.KindPod] != 200 {
		t.Errorf("after the hand-over: %+v, want pending alone and high-water 200", got)
	}
	if r := commit(t, h.Store, replace(t, after)); r.Succeeded {
		t.Error("a stale hand-over committed")
	}
}

func fence(t *testing.T, h Harness) {
	s := newShard(t, h, "s")
	b := s.batch(t, node("a"))
	mustCommit(t, h.Store, txnOf(t, b))
	e := b.Docs[0].Entries[0]
	steps := []func(ledger.NodeDoc) (ledger.NodeDoc, error){
		func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			next, _, err := txns.MarkWanted(d, e.PodUID, e.Token)
			return next, err
		},
		func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			return txns.MarkFencing(d, e.PodUID, e.Token, ledger.FenceByPod)
		},
		func(d ledger.NodeDoc) (ledger.NodeDoc, error) { return txns.ReleaseFenced(d, e.PodUID, e.Token, 300) },
	}
	for i, step := range steps {
		before := doc(t, h.Store, "a")
		next, err := step(before)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		mustCommit(t, h.Store, replace(t, next))
		after := doc(t, h.Store, "a")
		if v := invariant.CheckSuccessor(before, after); len(v) > 0 {
			t.Errorf("step %d: %v", i, v)
		}
		for j, other := range steps {
			if _, err := other(after); err == nil && j > i+1 {
				t.Errorf("after step %d, step %d was allowed", i, j)
			}
		}
	}
	if got := doc(t, h.Store, "a"); len(got.Entries) != 0 || got.HW[ledger.KindPod] != 300 {
		t.Errorf("after the fence: %+v, want no entry and high-water 300", got)
	}
}
