package decide_test

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

func important(priority int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Priority = &priority }
}

// running adds a pod that already runs on a node.
func (w *world) running(name, node string, options ...func(*corev1.Pod)) string {
	w.addPod(name, append(options, func(p *corev1.Pod) {
		p.Spec.NodeName = node
		p.Status.Phase = corev1.PodRunning
	})...)
	return "pod-" + name
}

// hold returns the reservation of a pod, and the document that contains it.
func (w *world) hold(uid string) (ledger.NodeDoc, ledger.Entry, bool) {
	for _, d := range w.docs() {
		if e, ok := d.Find(uid); ok {
			return d, e, true
		}
	}
	return ledger.NodeDoc{}, ledger.Entry{}, false
}

// claims returns the claimed victims by UID.
func (w *world) claims() map[string]ledger.Entry {
	out := map[string]ledger.Entry{}
	for _, d := range w.docs() {
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim {
				out[e.PodUID] = e
			}
		}
	}
	return out
}

// mark does what a binder does before it evicts: all unmarked victims of a pod's plan are
// marked Evicting. It returns their UIDs.
func (w *world) mark(preemptor string) []string {
	w.t.Helper()
	owner, hold, ok := w.hold(preemptor)
	if !ok || hold.State != ledger.Held {
		return nil
	}
	x := txns.EvictPlan{Plan: hold.Plan, Owner: owner, Sender: "binder"}
	if ledger.IsRecorded(hold.Plan) {
		r := w.record(hold.Plan)
		if r.State != ledger.PlanReady {
			return nil
		}
		x.Record = &r
	}
	for _, d := range w.docs() {
		found := false
		for _, e := range d.Entries {
			if e.Role == ledger.RoleVictim && e.Plan == hold.Plan && e.State != ledger.Evicting {
				x.Victims, found = append(x.Victims, e.PodUID), true
			}
		}
		if found {
			x.Docs = append(x.Docs, d)
		}
	}
	if len(x.Victims) == 0 {
		return nil
	}
	change, err := txns.MarkEvicting(x)
	if err != nil {
		w.t.Fatalf("mark: %v", err)
	}
	w.change(change)
	return x.Victims
}

func (w *world) change(c txns.Change) {
	w.t.Helper()
	txn, err := c.Txn()
	if err != nil {
		w.t.Fatal(err)
	}
	if !w.commit(txn).Succeeded {
		w.t.Fatalf("%+v lost a race in a test without one", c)
	}
}

// runUntilQuiet delivers everything and answers transactions in flight until nothing changes.
func (st *scenario) runUntilQuiet() {
	st.t.Helper()
	for range 100 {
		st.deliverAll()
		if st.s.commit == nil {
			if st.s.fact == len(st.facts) && st.s.ledger == len(st.history) {
				return
			}
			continue
		}
		st.answer()
	}
	st.t.Fatal("the shard does not come to rest")
}

func (st *scenario) kinds() []events.DecisionKind {
	var out []events.DecisionKind
	for _, d := range st.s.decisions {
		out = append(out, d.Kind)
	}
	return out
}

// A pod that fits nowhere gets a held place, and its victim is claimed; when the victim is gone, the pod is
// promoted.
func TestPodIsNominatedAndPromoted(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	a, b := st.running("a", "n0", important(5)), st.running("b", "n1")
	_ = a
	st.deliverAll()
	p := st.pod("p", important(10))
	st.runUntilQuiet()
	doc, hold, ok := st.hold(p)
	if !ok || hold.State != ledger.Held || doc.NodeName != "n1" || hold.Plan == "" {
		t.Fatalf("hold %+v on %s: want a place held on n1, where the least important pod is", hold, doc.NodeName)
	}
	if claim, ok := st.claims()[b]; !ok || claim.Plan != hold.Plan || claim.State != 0 {
		t.Fatalf("claims %+v: want one on %s", st.claims(), b)
	}
	if got := st.kinds(); !slices.Equal(got, []events.DecisionKind{events.DecisionNominated}) {
		t.Fatalf("decisions %v, want it nominated", got)
	}
	const why = "0/2 nodes are available: 2 Insufficient cpu."
	if d := st.s.decisions[0]; !strings.HasPrefix(d.Message, why) || d.NodeName != "n1" {
		t.Errorf("nominated to %s: %q", d.NodeName, d.Message)
	}
	st.mark(p)
	st.runUntilQuiet()
	if _, hold, _ = st.hold(p); hold.State != ledger.Held {
		t.Fatalf("%s while the victim is there", hold.State)
	}
	st.deletePod(b)
	st.runUntilQuiet()
	if _, hold, _ = st.hold(p); hold.State != ledger.Committed || hold.Plan != "" {
		t.Fatalf("hold %+v after the victim has gone, want it Committed", hold)
	}
	if len(st.claims()) != 0 {
		t.Errorf("claims %+v are left", st.claims())
	}
	if got := st.kinds(); got[len(got)-1] != events.DecisionPlaced {
		t.Errorf("decisions %v, want it placed at last", got)
	}
}

// Between the search for victims and T2, another shard changes the node. Nothing has been claimed then, and the pod
// is decided again.
func TestNominationLosesItsNode(t *testing.T) {
	st := newScenario(t, 2, 2, 1)
	st.running("a", "n0", important(5))
	b := st.running("b", "n1")
	st.deliverAll()
	p := st.pod("p", important(10))
	if st.s.commit == nil || st.s.commit.Kind != "T2" {
		t.Fatalf("in flight: %+v, want a T2", st.s.commit)
	}
	st.touch("n1", raised)
	st.answer()
	if len(st.claims()) != 0 {
		t.Fatalf("claims %+v by a transaction that was lost", st.claims())
	}
	st.runUntilQuiet()
	doc, hold, ok := st.hold(p)
	if _, claimed := st.claims()[b]; !ok || doc.NodeName != "n1" || hold.State != ledger.Held || !claimed {
		t.Errorf("hold %+v on %q, claims %+v: want it decided again for n1", hold, doc.NodeName, st.claims())
	}
	if st.s.conflicts != 1 {
		t.Errorf("%d conflicts reported, want 1", st.s.conflicts)
	}
}

// held returns a scenario in which a place on n0 is held for p of priority 10, whose victim is v.
func held(t *testing.T, nodes int, options ...func(*corev1.Pod)) (st *scenario, p, v string) {
	t.Helper()
	st = newScenario(t, 2, nodes, 1)
	v = st.running("v", "n0", options...)
	for n := 1; n < nodes; n++ {
		st.running(fmt.Sprintf("other%d", n), fmt.Sprintf("n%d", n), important(500))
	}
	st.deliverAll()
	p = st.pod("p", important(10))
	st.runUntilQuiet()
	doc, hold, ok := st.hold(p)
	if !ok || hold.State != ledger.Held || doc.NodeName != "n0" {
		t.Fatalf("hold %+v on %q, want a place on n0", hold, doc.NodeName)
	}
	return st, p, v
}

// A more important pod that arrives while the victim is stopping takes over the place with all its victims. This is
// reported for the other pod, and no pod is evicted a second time.
func TestGracefulIntruder(t *testing.T) {
	st, p, v := held(t, 2)
	st.mark(p)
	st.deliverAll()
	plan := st.claims()[v].Plan
	same := st.pod("same", important(10))
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatal("a pod that is as important has displaced it")
	}
	q := st.pod("q", important(100))
	st.runUntilQuiet()
	if _, _, still := st.hold(p); still {
		t.Error("the displaced pod has a reservation still")
	}
	if _, _, reserved := st.hold(same); reserved {
		t.Error("the pod that is as important has a reservation")
	}
	doc, hold, ok := st.hold(q)
	if !ok || hold.State != ledger.Held || hold.Plan != plan || doc.NodeName != "n0" {
		t.Fatalf("hold %+v on %q, want the place of the other one under its plan", hold, doc.NodeName)
	}
	claims := st.claims()
	if c, ok := claims[v]; len(claims) != 1 || !ok || c.State != ledger.Evicting || c.Plan != plan {
		t.Errorf("claims %+v, want the one there was", claims)
	}
	i := slices.IndexFunc(st.s.decisions, func(d events.Decision) bool { return d.Kind == events.DecisionWithdrawn })
	if i < 0 || st.s.decisions[i].Pod.UID != p ||
		!strings.Contains(st.s.decisions[i].Message, "priority 100, against 10") {
		t.Errorf("decisions %+v, want the displaced pod to be told why", st.s.decisions)
	}
	st.deletePod(v)
	st.runUntilQuiet()
	if _, hold, _ = st.hold(q); hold.State != ledger.Committed || len(st.claims()) != 0 {
		t.Errorf("%+v, claims %+v: want it placed", hold, st.claims())
	}
}

// A pod that takes over the place of another pod must not take more than is held and freed there.
func TestIntruderThatDoesNotFitLeavesTheHold(t *testing.T) {
	st, p, _ := held(t, 2)
	big := st.pod("big", important(100), func(pod *corev1.Pod) {
		pod.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("150m")
	})
	st.runUntilQuiet()
	_, hold, ok := st.hold(p)
	if _, _, reserved := st.hold(big); !ok || hold.State != ledger.Held || reserved {
		t.Errorf("hold %+v, and %v for a pod that no node can take", hold, reserved)
	}
}

// Another node gets the name of the node where a place is held, as only another shard knows: no pod is placed in the
// room of the node that is gone, although this shard's facts still show it.
func TestNodeRegistersAgainWhileAPlaceIsHeld(t *testing.T) {
	st, p, v := held(t, 1)
	st.mark(p)
	st.deliverAll()
	change, err := txns.AdmitNode{
		NodeUID: "node-n0-again", NodeName: "n0", NodeRV: 1 << 20, Known: st.ledgerView().Names().Incarnation("n0"),
		Docs: st.ledgerView().Names().Docs("n0"), Floor: st.ledgerView().Floor(),
	}.Admit()
	if err != nil {
		t.Fatal(err)
	}
	txn, err := change.Txn()
	if err != nil || !st.commit(txn).Succeeded {
		t.Fatalf("the node is not admitted: %v", err)
	}
	st.deletePod(v)
	st.runUntilQuiet()
	if _, hold, there := st.hold(p); there {
		t.Errorf("%+v, want the place given up", hold)
	}
	last := st.s.decisions[len(st.s.decisions)-1]
	if !slices.ContainsFunc(st.s.decisions, func(d events.Decision) bool {
		return d.Kind == events.DecisionWithdrawn && strings.Contains(d.Message, "another node has registered")
	}) {
		t.Errorf("last decision %+v, want the pod to be told why", last)
	}
}

func TestPreemptorIsDeletedWhileItsPlaceIsHeld(t *testing.T) {
	for _, marked := range []bool{false, true} {
		t.Run(fmt.Sprintf("evicting=%v", marked), func(t *testing.T) {
			st, p, v := held(t, 1)
			if marked {
				st.mark(p)
			}
			st.deletePod(p)
			st.runUntilQuiet()
			if _, _, reserved := st.hold(p); reserved {
				t.Error("the place is held still")
			}
			if _, claimed := st.claims()[v]; claimed != marked {
				t.Errorf("the victim is claimed: %v; it is being evicted: %v", claimed, marked)
			}
		})
	}
}

// The next owner of the partition continues with the places held in it.
func TestPartitionIsTakenOverWhileAPlaceIsHeld(t *testing.T) {
	st, p, v := held(t, 1)
	st.mark(p)
	successor := st.shards[1]
	st.takeOver(p, successor)
	st.deletePod(v)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held || st.s.core.HeldPlaces() != 0 {
		t.Fatalf("%+v, and the shard that lost the partition looks after %d holds", hold, st.s.core.HeldPlaces())
	}
	st.s = successor
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Committed {
		t.Errorf("%+v: want the heir to promote it", hold)
	}
}

// takeOver gives a pod's partition to another shard.
func (w *world) takeOver(pod string, successor *shard) {
	w.t.Helper()
	session, err := w.store.OpenSession(w.t.Context(), time.Minute)
	if err != nil {
		w.t.Fatal(err)
	}
	partition := ledger.PartitionOf(pod)
	kvs, _, err := w.store.List(w.t.Context(), roster.KeyOwn(partition))
	if err != nil || len(kvs) == 0 {
		w.t.Fatalf("partition %d: %v, %d keys", partition, err, len(kvs))
	}
	release, err := roster.ReleasePartition(partition, kvs[0].CreateRevision)
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(release)
	take, err := roster.TakePartition(partition, roster.Owner{Member: successor.id}, session.Lease())
	if err != nil {
		w.t.Fatal(err)
	}
	w.commit(take)
}

// A victim that never terminates does not keep the place for ever.
func TestVictimThatStays(t *testing.T) {
	st, p, v := held(t, 1, func(p *corev1.Pod) { p.Spec.TerminationGracePeriodSeconds = ptr.To[int64](60) })
	st.mark(p)
	st.runUntilQuiet()
	st.wait(3 * time.Minute)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Fatal("given up within the victim's grace period")
	}
	st.wait(2 * time.Minute)
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Error("the place is held still")
	}
	if c := st.claims()[v]; c.State != ledger.Evicting {
		t.Errorf("claim %+v: an eviction may be under way, want it to stay", c)
	}
	if d := st.s.decisions[len(st.s.decisions)-1]; d.Kind != events.DecisionWithdrawn || d.Pod.UID != p {
		t.Errorf("last decision %+v, want the pod to be told", d)
	}
}

// While no eviction is in progress, a pod that now fits elsewhere releases its victims.
func TestPreemptorFitsElsewhereMeanwhile(t *testing.T) {
	for _, marked := range []bool{false, true} {
		t.Run(fmt.Sprintf("evicting=%v", marked), func(t *testing.T) {
			st, p, _ := held(t, 1)
			if marked {
				st.mark(p)
			}
			st.addNode("fresh", 1)
			st.runUntilQuiet()
			st.wait(5 * time.Second)
			st.runUntilQuiet()
			_, _, reserved := st.hold(p)
			if reserved != marked {
				t.Fatalf("the place is held: %v; somebody is being evicted for it: %v", reserved, marked)
			}
			if marked {
				return
			}
			if len(st.claims()) != 0 {
				t.Errorf("claims %+v are left", st.claims())
			}
			st.offerAgain(p)
			st.runUntilQuiet()
			if doc, hold, _ := st.hold(p); doc.NodeName != "fresh" || hold.State != ledger.Committed {
				t.Errorf("%+v on %q, want it placed on the new node", hold, doc.NodeName)
			}
		})
	}
}

func TestPodThatMayNotPreempt(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	st.running("v", "n0")
	st.deliverAll()
	never := corev1.PreemptNever
	p := st.pod("p", important(10), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never })
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Error("a place is held for it")
	}
	d := st.s.decisions
	if len(d) != 1 || d[0].Kind != events.DecisionUnplaceable ||
		!strings.HasSuffix(d[0].Message, "preemption: not eligible due to preemptionPolicy=Never.") {
		t.Errorf("decisions %+v", d)
	}
}

// refuse takes back the marks of a pod's plan, like a binder whose evictions have failed.
func (st *scenario) refuse(v string) {
	st.t.Helper()
	for _, d := range st.docs() {
		if e, ok := d.Victim(v); ok && e.State == ledger.Evicting {
			next, err := txns.FailEviction(d, v, e.Plan)
			if err != nil {
				st.t.Fatal(err)
			}
			st.change(txns.Change{Docs: []ledger.NodeDoc{next}})
			return
		}
	}
	st.t.Fatalf("%s is not being evicted", v)
}

// Victims that cannot be evicted are released, and spared for a while; a pod whose plans fail one after the other
// gets no more plans.
func TestPlansThatComeToNothing(t *testing.T) {
	const victims = 5
	st := newScenario(t, 1, victims, 1)
	for n := range victims {
		st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n))
	}
	st.deliverAll()
	p := st.pod("p", important(10))
	seen := map[string]bool{}
	for range 3 {
		st.runUntilQuiet()
		marked := st.mark(p)
		if len(marked) != 1 || seen[marked[0]] {
			t.Fatalf("evicting %v after %v: want another one each time", marked, seen)
		}
		seen[marked[0]] = true
		st.runUntilQuiet()
		st.refuse(marked[0])
		st.runUntilQuiet()
		st.wait(31 * time.Second)
		st.runUntilQuiet()
		if _, _, reserved := st.hold(p); reserved || len(st.claims()) != 0 {
			t.Fatalf("claims %+v are left after a refusal", st.claims())
		}
		st.offerAgain(p)
	}
	st.runUntilQuiet()
	if _, _, reserved := st.hold(p); reserved {
		t.Error("a fourth plan is made")
	}
	d := st.s.decisions[len(st.s.decisions)-1]
	if d.Kind != events.DecisionUnplaceable || !strings.Contains(d.Message, "preemption: refused: 3 plans") {
		t.Errorf("last decision %+v", d)
	}
	if d.RetryAfter <= 8*time.Minute || d.RetryAfter > 10*time.Minute {
		t.Errorf("to be tried again after %s, want what is left of ten minutes", d.RetryAfter)
	}
	st.wait(d.RetryAfter)
	st.offerAgain(p)
	st.runUntilQuiet()
	if _, hold, _ := st.hold(p); hold.State != ledger.Held {
		t.Error("refused still after the window")
	}
}

// A reservation that is not bound yet is asked back from its binder; no pod is evicted for that.
func TestReservationIsAskedBack(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	low := st.pod("low")
	st.runUntilQuiet()
	p := st.pod("p", important(10))
	st.runUntilQuiet()
	_, hold, ok := st.hold(p)
	_, taken, _ := st.hold(low)
	if !ok || hold.State != ledger.Held || !taken.Wanted || len(st.claims()) != 0 {
		t.Fatalf("hold %+v, reservation %+v, claims %+v: want it asked back", hold, taken, st.claims())
	}
	st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
		d, err := txns.MarkFencing(d, low, taken.Token, ledger.FenceByWant)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
	st.runUntilQuiet()
	st.publish(st.pods[low])
	rv, _ := strconv.ParseUint(st.pods[low].ResourceVersion, 10, 64)
	st.touch("n0", func(d ledger.NodeDoc) ledger.NodeDoc {
		d, err := txns.ReleaseFenced(d, low, taken.Token, rv)
		if err != nil {
			t.Fatal(err)
		}
		return d
	})
	st.runUntilQuiet()
	if _, hold, _ = st.hold(p); hold.State != ledger.Committed {
		t.Errorf("%+v after the reservation has gone", hold)
	}
}

// After a lost answer the same transaction is sent again, and its effects are found in the documents.
func TestNominationWhoseAnswerIsLost(t *testing.T) {
	st := newScenario(t, 1, 1, 1)
	v := st.running("v", "n0")
	st.deliverAll()
	p := st.pod("p", important(10))
	first := *st.s.commit
	st.commit(first.Txn)
	st.step(st.s, step.Input{Results: []step.Result{{ID: first.ID, Err: context.DeadlineExceeded}}})
	if st.s.commit == nil || st.s.commit.Resubmitted != 1 || !reflect.DeepEqual(st.s.commit.Txn, first.Txn) {
		t.Fatalf("resubmitted %+v, want the identical transaction", st.s.commit)
	}
	st.runUntilQuiet()
	if got := st.kinds(); !slices.Equal(got, []events.DecisionKind{events.DecisionNominated}) {
		t.Errorf("decisions %v", got)
	}
	if _, hold, _ := st.hold(p); hold.State != ledger.Held || len(st.claims()) != 1 || st.claims()[v].Plan != hold.Plan {
		t.Errorf("hold %+v, claims %+v", hold, st.claims())
	}
}
