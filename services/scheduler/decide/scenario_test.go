package decide_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/work"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state/follow"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/avoid"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// scenario is one shard under test, to which events are delivered one by one; the other shards of its world exist only
// by name.
type scenario struct {
	*world
	s *shard
}

// newScenario returns a scenario with nodes n0, n1, … with room for some pods each, all of which the shard knows.
func newScenario(t *testing.T, shards, nodes int, room int64) *scenario {
	st := &scenario{world: newWorld(t, 1, shards)}
	st.s = st.shards[0]
	for n := range nodes {
		st.addNode(fmt.Sprintf("n%d", n), room)
	}
	st.deliverAll()
	return st
}

// deliverAll delivers all events to the shard.
func (st *scenario) deliverAll() {
	st.deliverFacts()
	st.deliverLedger()
}

func (st *scenario) deliverFacts() {
	if st.s.fact < len(st.facts) {
		st.step(st.s, step.Input{Facts: st.s.fold(follow.Batch{Facts: st.facts[st.s.fact:]})})
		st.s.fact = len(st.facts)
	}
}

func (st *scenario) deliverLedger() {
	var in step.Input
	for ; st.s.ledger < len(st.history); st.s.ledger++ {
		in.Ledger = append(in.Ledger, replica.Batch{Events: st.history[st.s.ledger]})
	}
	st.step(st.s, in)
}

// pod adds a pod that belongs to the shard under test, and offers it.
func (st *scenario) pod(name string, options ...func(*corev1.Pod)) string {
	for i := 0; ; i++ {
		uid := fmt.Sprintf("pod-%s%d", name, i)
		if st.ownerOf(ledger.PartitionOf(uid)) != st.s {
			continue
		}
		st.addPod(fmt.Sprintf("%s%d", name, i), options...)
		st.deliverFacts()
		st.offerAgain(uid)
		return uid
	}
}

func (st *scenario) offerAgain(uid string) {
	st.tokens++
	st.offered[uid]++
	st.step(st.s, step.Input{Offers: []work.OfferBatch{{Term: 1, Offers: []work.Offer{{
		Pod: events.PodRef{UID: uid, Namespace: "d", Name: st.pods[uid].Name}, Partition: ledger.PartitionOf(uid),
		Token: ledger.Token(st.tokens).String(), Attempt: st.offered[uid], FactSequence: uint64(len(st.facts)),
	}}}}})
}

// target returns the node on which the transaction in flight places a pod; empty if there is none.
func (st *scenario) target() string {
	st.t.Helper()
	if st.s.commit == nil {
		return ""
	}
	name := ""
	for _, p := range st.s.commit.Txn.Puts {
		if !strings.HasPrefix(p.Key, ledger.PrefixNode) {
			continue
		}
		d, err := codec.DecodeNodeDoc(ledger.KV{Key: p.Key, Value: p.Value, ModRevision: 1})
		if err != nil {
			st.t.Fatal(err)
		}
		name = d.NodeName
	}
	return name
}

// answer commits the transaction in flight and delivers its answer.
func (st *scenario) answer() {
	st.t.Helper()
	if st.s.commit == nil {
		st.t.Fatal("no transaction in flight")
	}
	c := st.s.commit
	st.s.commit = nil
	st.step(st.s, step.Input{Results: []step.Result{{ID: c.ID, Txn: st.commit(c.Txn)}}})
}

// touch changes a node's document, as another shard or a binder would.
func (st *scenario) touch(node string, change func(d ledger.NodeDoc) ledger.NodeDoc) {
	st.t.Helper()
	uid := "node-" + node
	doc := ledger.NodeDoc{NodeUID: uid, NodeName: node}
	for _, d := range st.docs() {
		if d.NodeUID == uid {
			doc = d
		}
	}
	txn, err := txns.Replace(change(doc))
	if err != nil {
		st.t.Fatal(err)
	}
	if !st.commit(txn).Succeeded {
		st.t.Fatalf("the document of %s did not change", node)
	}
}

func raised(d ledger.NodeDoc) ledger.NodeDoc { return d.Cover("other", d.HW["other"]+1) }

// lose makes the transaction in flight lose its node.
func (st *scenario) lose() {
	st.t.Helper()
	st.touch(st.target(), raised)
	st.answer()
}

// wait lets time pass, with a heartbeat.
func (st *scenario) wait(d time.Duration) {
	st.now = st.now.Add(d)
	st.step(st.s, step.Input{Beat: true})
}

func (st *scenario) noticeKinds() (kinds []avoid.NoticeKind) {
	for _, n := range st.s.notices {
		kinds = append(kinds, n.What)
	}
	st.s.notices = nil
	return kinds
}

// bind shows the pod as bound, and its reservation as handed over.
func (st *scenario) bind(uid, node string) {
	p := st.pods[uid]
	p.Spec.NodeName = node
	p.Annotations = map[string]string{events.AttemptAnnotation: "x"}
	st.publish(p)
}

func TestLostRaceCostsALookup(t *testing.T) {
	st := newScenario(t, 2, 3, 10)
	st.pod("p")
	first := st.target()
	st.lose()
	second := st.target()
	if second == "" || second == first {
		t.Fatalf("after losing %s the shard goes for %q, want the next-best node at once", first, second)
	}
	st.answer()
	if d := st.s.decisions; len(d) != 1 || d[0].Kind != events.DecisionPlaced || d[0].NodeName != second {
		t.Errorf("decisions %+v, want it placed on %s", d, second)
	}
	if st.s.conflicts != 1 {
		t.Errorf("%d conflicts reported, want 1", st.s.conflicts)
	}
}

// After a lost race for a node's first document, the shard may not use the node until the watch has shown the
// document. The following pods wait for that: they are not placed on a worse node.
func TestPodsBehindALostFirstDocumentGoToTheirBestNode(t *testing.T) {
	st := newScenario(t, 2, 2, 10)
	st.pod("first", preferring(corev1.LabelHostname, "n0"))
	if st.target() != "n0" {
		t.Fatalf("in flight to %q, want n0", st.target())
	}
	st.lose()
	for st.s.commit != nil {
		st.answer()
	}
	st.pod("next", preferring(corev1.LabelHostname, "n0"))
	if got := st.target(); got != "" {
		t.Fatalf("goes for %q before the watch has shown what was lost to, want it to wait", got)
	}
	st.deliverLedger()
	if got := st.target(); got != "n0" {
		t.Errorf("goes for %q when the watch has shown it, want n0", got)
	}
}

// A document that existed before can be used at once by the following pods.
func TestPodsBehindALostRaceGoOn(t *testing.T) {
	st := newScenario(t, 2, 2, 10)
	st.touch("n0", raised)
	st.deliverLedger()
	st.pod("first", preferring(corev1.LabelHostname, "n0"))
	st.lose()
	for st.s.commit != nil {
		st.answer()
	}
	st.pod("next", preferring(corev1.LabelHostname, "n0"))
	if got := st.target(); got != "n0" {
		t.Errorf("goes for %q behind a lost race, want n0 at once", got)
	}
}

func TestNextBestMustNotHaveMoved(t *testing.T) {
	st := newScenario(t, 2, 3, 10)
	st.pod("p")
	lost := st.target()
	for _, n := range []string{"n0", "n1", "n2"} {
		st.touch(n, raised)
	}
	st.deliverLedger()
	st.answer()
	// Decided again on what the watch has delivered, the lost node is as good as before.
	if got := st.target(); got != lost {
		t.Errorf("goes for %q, want another decision for %s", got, lost)
	}
}

func TestRetryWaitsForWhatItLostTo(t *testing.T) {
	st := newScenario(t, 2, 1, 10)
	st.pod("p")
	st.lose()
	if got := st.target(); got != "" {
		t.Fatalf("decided again for %s before the watch has told what it lost to", got)
	}
	st.deliverLedger()
	if got := st.target(); got != "n0" {
		t.Errorf("goes for %q when the watch has told, want n0", got)
	}
}

func TestRepeatedLoserGoesBackToTheHeadOfTheQueue(t *testing.T) {
	st := newScenario(t, 1, 1, 10)
	st.pod("p")
	for i := range attempt.MaxLosses {
		st.wait(2 * time.Second) // any turn that it waits for has ended
		st.deliverLedger()
		if st.target() == "" {
			t.Fatalf("gave up after %d losses", i)
		}
		st.lose()
	}
	st.deliverLedger()
	out, err := checked(st.s.core.Step(step.Input{Beat: true}, st.now))
	if err != nil {
		t.Fatal(err)
	}
	if len(out.Request.Return) != 1 || len(st.s.decisions) != 0 {
		t.Errorf("returned %v, decided %v: want it given back without a verdict", out.Request.Return, st.s.decisions)
	}
}

// After three lost races the other shards leave a node to the shard for a moment.
func TestThirdLossAsksForATurn(t *testing.T) {
	// Of two shards, the node is a home node of one.
	for _, mine := range []bool{true, false} {
		t.Run(fmt.Sprintf("home=%v", mine), func(t *testing.T) {
			st := newScenario(t, 2, 1, 10)
			home := slices.IndexFunc(st.shards, func(s *shard) bool { return st.home(s, "node-n0") })
			st.s = st.shards[home]
			if !mine {
				st.s = st.shards[1-home]
			}
			st.deliverAll()
			st.pod("p")
			for range 3 {
				st.deliverLedger()
				st.lose()
			}
			st.deliverLedger()
			want := work.Turn{NodeUID: "node-n0", Shard: st.s.id, Granted: mine}
			if diff := cmp.Diff([]work.Turn{want}, st.s.sentTurns); diff != "" {
				t.Fatalf("said (-want +got):\n%s", diff)
			}
			if mine == (st.target() == "") {
				t.Fatalf("goes for %q; its turn has come: %v", st.target(), mine)
			}
			if !mine {
				want.Granted = true
				st.step(st.s, step.Input{Turns: []work.Turn{want}})
			}
			if st.target() != "n0" {
				t.Error("does not use its turn")
			}
		})
	}
}

// home reports whether a shard grants the turns at a node.
func (w *world) home(s *shard, nodeUID string) bool {
	var members []string
	for _, s := range w.shards {
		members = append(members, s.id)
	}
	return membership.Home(members, nodeUID) == s.id
}

func TestWaitForATurnEnds(t *testing.T) {
	st := newScenario(t, 2, 1, 10)
	if st.home(st.s, "node-n0") {
		st.s = st.shards[1]
		st.deliverAll()
	}
	st.pod("p")
	for range 3 {
		st.deliverLedger()
		st.lose()
	}
	st.deliverLedger()
	if st.target() != "" {
		t.Fatal("does not wait for its turn")
	}
	st.wait(5 * time.Second)
	if st.target() != "n0" {
		t.Error("waits for a turn that nobody gives")
	}
}

// A node is not used during another shard's turn, unless the only alternative is to wait.
func TestAnothersTurn(t *testing.T) {
	st := newScenario(t, 2, 2, 10)
	turn := work.Turn{NodeUID: "node-n0", Shard: "scheduler-1", Granted: true}
	st.step(st.s, step.Input{Turns: []work.Turn{turn}})
	if alone := st.s.core.AvoidedCounts()["turn"]; alone != 1 {
		t.Fatalf("%d nodes left alone, want 1", alone)
	}
	for i := range 4 {
		st.pod(fmt.Sprintf("p%d-", i))
		if st.target() != "n1" {
			t.Fatalf("goes for %q in another's turn at n0", st.target())
		}
		st.answer()
	}
	// The turn ends when the other shard has placed a pod there.
	st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
		next, err := txns.Place(d, ledger.Entry{
			PodUID: "other", Name: "other", Namespace: "d", Role: ledger.RoleReservation, State: ledger.Committed,
			Token: 77, PodRV: 1, Shard: "scheduler-1",
		})
		if err != nil {
			t.Fatal(err)
		}
		return next
	})
	st.deliverLedger()
	if alone := st.s.core.AvoidedCounts()["turn"]; alone != 0 {
		t.Error("the turn goes on after its owner has placed a pod")
	}
}

func TestTurnEndsWithTime(t *testing.T) {
	st := newScenario(t, 2, 1, 10)
	st.step(st.s, step.Input{Turns: []work.Turn{{NodeUID: "node-n0", Shard: "scheduler-1", Granted: true}}})
	st.pod("p")
	if st.target() != "" || len(st.s.decisions) != 0 {
		t.Fatalf("goes for %q, decided %v: want it to wait", st.target(), st.s.decisions)
	}
	if !st.s.more {
		t.Error("does not ask for a step soon")
	}
	st.wait(time.Second)
	if st.target() != "n0" {
		t.Errorf("goes for %q after the turn", st.target())
	}
}

// Turns are granted one after the other, in the order of the requests.
func TestTurnsAreGivenInOrder(t *testing.T) {
	st := newScenario(t, 3, 1, 10)
	home := slices.IndexFunc(st.shards, func(s *shard) bool { return st.home(s, "node-n0") })
	st.s = st.shards[home]
	st.deliverAll()
	for _, name := range []string{"scheduler-8", "scheduler-9", "scheduler-8"} {
		st.step(st.s, step.Input{Turns: []work.Turn{{NodeUID: "node-n0", Shard: name}}})
	}
	st.wait(400 * time.Millisecond)
	st.wait(400 * time.Millisecond)
	st.wait(400 * time.Millisecond)
	var got []string
	for _, t := range st.s.sentTurns {
		got = append(got, t.Shard)
	}
	if diff := cmp.Diff([]string{"scheduler-8", "scheduler-9", "scheduler-8"}, got); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
}
