package decide_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/explain"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// fullNodes returns a scenario with three nodes, each with one less important pod and room for no other.
func fullNodes(t *testing.T, shards int) (st *scenario, victims []string) {
	t.Helper()
	st = newScenario(t, shards, 3, 1)
	for n := range 3 {
		victims = append(victims, st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n)))
	}
	st.deliverAll()
	return st, victims
}

// importantGang adds a gang whose members have a priority, shows it to the shard, and offers its first member.
func (st *scenario) importantGang(members int, minCount int32, options ...func(*corev1.Pod)) (uids []string) {
	st.addGroup("g", minCount)
	for i := range members {
		name := fmt.Sprintf("g-%d", i)
		st.addPod(name, append(options, memberOf("g"), important(10))...)
		uids = append(uids, "pod-"+name)
	}
	st.deliverAll()
	st.offerGang(uids[0], "g")
	return uids
}

// states returns the states of the reservations of pods that have one.
func (w *world) states(uids []string) (held, committed int) {
	for _, uid := range uids {
		switch _, e, ok := w.hold(uid); {
		case !ok:
		case e.State == ledger.Held:
			held++
		case e.State == ledger.Committed:
			committed++
		}
	}
	return held, committed
}

// outcomes returns how the attempts at gangs have ended.
func (st *scenario) outcomes() (list []step.Outcome) {
	for _, g := range st.s.gangs {
		list = append(list, g.Outcome)
	}
	return list
}

// markable reports whether a victim of any plan could be evicted now.
func (w *world) markable() bool {
	for _, e := range w.claims() {
		if !ledger.IsRecorded(e.Plan) || w.record(e.Plan).State == ledger.PlanReady {
			return true
		}
	}
	return false
}

// No pod can be evicted for a gang before all its members have a place, and all are promoted at once when the last
// victim has gone. A member that fits as it is gets its place first.
func TestGangEvictsForAllOrNone(t *testing.T) {
	st := newScenario(t, 1, 4, 1)
	victims := []string{st.running("a", "n0"), st.running("b", "n1"), st.running("c", "n2")}
	st.deliverAll()
	uids := st.importantGang(4, 4)
	for range 4 {
		if st.s.commit == nil || st.s.commit.Kind != "T2" {
			t.Fatalf("in flight %+v, want a T2", st.s.commit)
		}
		if st.markable() {
			t.Fatalf("a victim can be evicted while %v", st.verdicts())
		}
		st.answer()
		st.deliverAll()
	}
	st.runUntilQuiet()
	if held, _ := st.states(uids); held != 4 || len(st.claims()) != 3 {
		t.Fatalf("%d are held, claims %v: want 4 and 3; %v", held, st.claims(), st.verdicts())
	}
	if v := st.explained(); v.Counts[explain.MemberHeld] != 4 {
		t.Errorf("explained as %v, want four members that hold a place", v.Counts)
	}
	if got := st.kinds(); len(got) != 4 || slices.ContainsFunc(got, func(k events.DecisionKind) bool {
		return k != events.DecisionNominated
	}) {
		t.Errorf("decisions %v, want each member nominated", got)
	}
	for _, uid := range uids {
		st.mark(uid)
	}
	for i, v := range victims {
		if _, committed := st.states(uids); committed > 0 {
			t.Fatalf("%d members can be bound, and %d victims are there", committed, len(victims)-i)
		}
		st.deletePod(v)
		st.runUntilQuiet()
	}
	if _, committed := st.states(uids); committed != 4 || len(st.claims()) > 0 {
		t.Errorf("%d can be bound, claims %v: want all members, and no claim", committed, st.claims())
	}
	placed := map[int64]int{}
	for _, d := range st.s.decisions {
		if d.Kind == events.DecisionPlaced {
			placed[d.LedgerRevision]++
		}
	}
	if len(placed) != 1 {
		t.Errorf("members were placed at the revisions %v, want one", placed)
	}
	if got := st.outcomes(); !slices.Equal(got, []step.Outcome{step.WaitingOnPreemption, step.Scheduled}) {
		t.Errorf("the attempts at the gang are reported as %v", got)
	}
}

// A gang for which there is not enough room even without less important pods evicts no pod, and holds nothing.
func TestGangEvictsNoPodInVain(t *testing.T) {
	st := newScenario(t, 1, 3, 1)
	st.running("a", "n0")
	st.running("b", "n1")
	st.running("c", "n2", important(10))
	st.deliverAll()
	st.importantGang(3, 3)
	if st.s.commit != nil || len(st.claims()) > 0 {
		t.Errorf("in flight %+v, claims %v: want neither", st.s.commit, st.claims())
	}
	if got := st.outcomes(); !slices.Equal(got, []step.Outcome{step.Unschedulable}) {
		t.Errorf("the attempt at the gang is reported as %v", got)
	}
	if got := st.verdicts()["g-0"]; got != "unplaceable: 0/3 nodes are available: 3 Insufficient cpu." {
		t.Errorf("the verdict on the lead is %q", got)
	}
}

// The last place cannot be had, because a budget protects its victim: all places are given up, no pod was evicted, and
// the gang is tried again after a while.
func TestGangGivesUpItsPlaces(t *testing.T) {
	st := newScenario(t, 1, 3, 1)
	st.running("a", "n0")
	st.running("b", "n1")
	st.running("c", "n2", ofApp("c"), ready)
	arenaIn(st.world).addBudget("c", 1)
	st.deliverAll()
	uids := st.importantGang(3, 3)
	for _, want := range []time.Duration{time.Second, 2 * time.Second} {
		gathered := 0
		for st.s.commit != nil && st.s.commit.Kind == "T2" {
			st.answer()
			st.deliverAll()
			gathered++
			if st.markable() {
				t.Fatal("a victim can be evicted")
			}
		}
		if gathered != 2 {
			t.Fatalf("%d places were held, want 2: %v", gathered, st.verdicts())
		}
		st.runUntilQuiet()
		if held, committed := st.states(uids); held+committed > 0 || len(st.claims()) > 0 {
			t.Errorf("%d held, %d committed, claims %v: want nothing of the gang", held, committed, st.claims())
		}
		i := slices.IndexFunc(st.s.decisions, func(d events.Decision) bool { return d.RetryAfter > 0 })
		if i < 0 || st.s.decisions[i].RetryAfter != want {
			t.Fatalf("decisions %+v, want a retry after %s", st.s.decisions, want)
		}
		if got := st.kinds(); slices.Contains(got, events.DecisionNominated) {
			t.Errorf("decisions %v: a member was nominated without the others", got)
		}
		st.s.decisions = nil
		st.offerGang(uids[0], "g")
		if st.s.commit != nil {
			t.Fatalf("in flight %+v, want none before the time has passed", st.s.commit)
		}
		st.s.decisions = nil
		st.wait(want)
		st.offerGang(uids[0], "g")
	}
}

// A victim leaves by itself, and its claim is handed over, before the gang has all its places.
func TestGangWhoseVictimLeavesByItself(t *testing.T) {
	st, _ := fullNodes(t, 1)
	uids := st.importantGang(3, 3)
	st.answer()
	st.deliverAll()
	var claimed string
	for uid := range st.claims() {
		claimed = uid
	}
	st.deletePod(claimed)
	st.deliverFacts()
	for _, d := range st.docs() {
		if next, changed := txns.Finish(d, upToDate{st.world}); changed {
			st.change(txns.Change{Docs: []ledger.NodeDoc{next}})
		}
	}
	if len(st.claims()) != 0 {
		t.Fatalf("claims %v, want the only one handed over", st.claims())
	}
	st.runUntilQuiet()
	if held, _ := st.states(uids); held != 3 || !st.markable() {
		t.Errorf("%d members are held, and markable %t: %v", held, st.markable(), st.verdicts())
	}
}

// A gang that no transaction could promote holds no places.
func TestGangTooLargeToPreempt(t *testing.T) {
	const many = ledger.MaxTxnOps
	st := newScenario(t, 1, 1, many)
	for n := range many {
		st.running(fmt.Sprintf("v%d", n), "n0")
	}
	st.deliverAll()
	st.importantGang(many, many)
	if st.s.commit != nil {
		t.Errorf("in flight %+v, want none", st.s.commit)
	}
	if got := st.verdicts()["g-0"]; !strings.Contains(got, "larger than a transaction of the ledger") {
		t.Errorf("the verdict on the lead is %q", got)
	}
}

// A node that holds a place is closed before the victims elsewhere have gone: the evictions that have not begun are
// cancelled.
func TestGangLosesANode(t *testing.T) {
	st, uids, _ := heldGang(t)
	st.mark(uids[0])
	doc, _, _ := st.hold(uids[2])
	st.rv++
	closed := st.nodeObjects[doc.NodeName].DeepCopy()
	closed.ResourceVersion = fmt.Sprint(st.rv)
	closed.Spec.Unschedulable = true
	st.publishNode(closed)
	st.deliverAll()
	st.wait(time.Second)
	st.runUntilQuiet()
	if held, committed := st.states(uids); held+committed > 0 || len(st.claims()) != 1 {
		t.Errorf("%d held, %d can be bound, claims %v: want only the one that is being evicted",
			held, committed, st.claims())
	}
}

// While places are held, a member of another scheduler appears: the gang is rejected as a whole.
func TestGangOfSeveralSchedulersHoldsNothing(t *testing.T) {
	st, _ := fullNodes(t, 1)
	uids := st.importantGang(3, 3)
	st.addPod("stranger", memberOf("g"), important(10), func(p *corev1.Pod) { p.Spec.SchedulerName = "other" })
	st.runUntilQuiet()
	st.wait(time.Second)
	st.runUntilQuiet()
	if held, committed := st.states(uids); held+committed > 0 || len(st.claims()) > 0 {
		t.Errorf("%d held, %d can be bound, claims %v: want none", held, committed, st.claims())
	}
	if got := st.verdicts()["g-0"]; !strings.Contains(got, "same .spec.schedulerName") {
		t.Errorf("the verdict on the lead is %q", got)
	}
}

// The important member fits as it is, and makes room for the other one by evicting a pod.
func TestGangOfDifferentPriorities(t *testing.T) {
	st := newScenario(t, 1, 2, 1)
	st.running("v", "n0", important(5))
	st.deliverAll()
	st.addGroup("g", 2)
	st.addPod("g-0", memberOf("g"), important(10))
	st.addPod("g-1", memberOf("g"))
	st.deliverAll()
	st.offerGang("pod-g-0", "g")
	st.runUntilQuiet()
	uids := []string{"pod-g-0", "pod-g-1"}
	if held, _ := st.states(uids); held != 2 || len(st.claims()) != 1 {
		t.Errorf("%d held, claims %v: want both and one: %v", held, st.claims(), st.verdicts())
	}
}

// heldGang returns a scenario in which all members of a gang of three hold places for which others leave.
func heldGang(t *testing.T) (st *scenario, uids, victims []string) {
	t.Helper()
	st, victims = fullNodes(t, 1)
	uids = st.importantGang(3, 3)
	st.runUntilQuiet()
	if held, _ := st.states(uids); held != 3 {
		t.Fatalf("%d members are held, want 3: %v", held, st.verdicts())
	}
	return st, uids, victims
}

// A gang that fails counts once against the pair of owners, however many members it has: it is tried again.
func TestGangThatFailsCountsOnce(t *testing.T) {
	st := newScenario(t, 1, 4, 1)
	for n := range 4 {
		st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n), ownedBy("victims"))
	}
	st.deliverAll()
	uids := st.importantGang(4, 4, ownedBy("job"))
	st.runUntilQuiet()
	for _, uid := range uids {
		st.mark(uid)
	}
	st.deletePod(uids[3])
	st.runUntilQuiet()
	if held, _ := st.states(uids); held > 0 {
		t.Fatalf("%d members are held after one has gone", held)
	}
	for uid := range st.claims() { // binders take the evictions back, and drop the claims
		st.refuse(uid)
	}
	for _, d := range st.docs() {
		swept, err := txns.SweepDoc(txns.Sweeping{
			Doc: d, View: st.ledgerView(), Facts: upToDate{st.world}, Reported: true,
		})
		if err != nil {
			t.Fatal(err)
		}
		if !swept.Empty() {
			st.change(swept.Change)
		}
	}
	st.runUntilQuiet()
	if claims := st.claims(); len(claims) > 0 {
		t.Fatalf("claims %v are left", claims)
	}
	st.addPod("g-4", memberOf("g"), important(10), ownedBy("job"))
	st.deliverAll()
	st.wait(2 * time.Second)
	st.s.decisions = nil
	st.offerGang(uids[0], "g")
	st.runUntilQuiet()
	if held, _ := st.states(append(uids[:3], "pod-g-4")); held != 4 {
		t.Errorf("%d members are held, want 4: %v", held, st.verdicts())
	}
}

// The answer to the transaction that makes the plans Ready is lost: the members are nominated all the same.
func TestGangStartsWithoutAnAnswer(t *testing.T) {
	st := newScenario(t, 1, 2, 1)
	st.running("a", "n0")
	st.running("b", "n1")
	st.deliverAll()
	uids := st.importantGang(2, 2)
	for range uids {
		st.answer()
		st.deliverAll()
	}
	if st.s.commit == nil || st.markable() {
		t.Fatalf("in flight %+v, want the start", st.s.commit)
	}
	st.commit(st.s.commit.Txn)
	st.step(st.s, step.Input{Results: []step.Result{{ID: st.s.commit.ID, Err: errors.New("no answer")}}})
	st.runUntilQuiet()
	if got := st.kinds(); len(got) != 2 || got[0] != events.DecisionNominated || got[1] != events.DecisionNominated {
		t.Errorf("decisions %v, want both members nominated", got)
	}
}

// When a member that holds a place is gone, too few are left: the others give theirs up, and victims that are not being
// evicted are released.
func TestGangLosesAMemberThatHoldsAPlace(t *testing.T) {
	st, uids, victims := heldGang(t)
	st.mark(uids[0])
	st.deletePod(uids[2])
	st.runUntilQuiet()
	st.wait(time.Second)
	st.runUntilQuiet()
	if held, committed := st.states(uids); held+committed > 0 {
		t.Errorf("%d held, %d can be bound: want none", held, committed)
	}
	_, _, marked := st.hold(uids[0])
	if claims := st.claims(); len(claims) != 1 || marked {
		t.Errorf("claims %v: want the one that is being evicted, of %v", claims, victims)
	}
}

// Another pod has taken a place meanwhile: what is left is not enough, and no member is promoted.
func TestGangLosesAPlace(t *testing.T) {
	st, uids, victims := heldGang(t)
	for _, uid := range uids {
		st.mark(uid)
	}
	st.running("static", "n1", important(500))
	for _, v := range victims {
		st.deletePod(v)
	}
	st.runUntilQuiet()
	st.wait(time.Second)
	st.runUntilQuiet()
	if held, committed := st.states(uids); held+committed > 0 {
		t.Errorf("%d held, %d can be bound: want none", held, committed)
	}
}

// Two members have their places on one node, where there is less room than was held: both or none are promoted.
func TestGangOnANodeThatShrinks(t *testing.T) {
	st := newScenario(t, 1, 1, 2)
	victims := []string{st.running("a", "n0"), st.running("b", "n0")}
	st.deliverAll()
	uids := st.importantGang(2, 2)
	st.runUntilQuiet()
	if held, _ := st.states(uids); held != 2 || len(st.claims()) != 2 {
		t.Fatalf("%d held, claims %v: want two of each", held, st.claims())
	}
	for _, uid := range uids {
		st.mark(uid)
	}
	st.addNode("n0", 1)
	for _, v := range victims {
		st.deletePod(v)
	}
	st.runUntilQuiet()
	st.wait(time.Second)
	st.runUntilQuiet()
	if _, committed := st.states(uids); committed > 0 {
		t.Errorf("%d of two members can be bound", committed)
	}
}

// The shard that held the first places is gone. The next owner of the partition cannot go on, and gives them up; if all
// places were held, it goes on.
func TestGangPlacesChangeHands(t *testing.T) {
	for answered, want := range map[int]int{1: 0, 3: 3} {
		t.Run(fmt.Sprintf("after %d places", answered), func(t *testing.T) {
			st := newScenario(t, 2, 3, 1)
			for n := range 3 {
				st.running(fmt.Sprintf("v%d", n), fmt.Sprintf("n%d", n))
			}
			partition := ledger.PartitionOf("gang\nd\ng")
			st.s = st.ownerOf(partition)
			heir := st.shards[0]
			if st.s == heir {
				heir = st.shards[1]
			}
			st.deliverAll()
			uids := st.importantGang(3, 3)
			for range answered {
				st.answer()
				st.deliverAll()
			}
			st.movePartition(partition, heir)
			st.s = heir
			st.runUntilQuiet()
			st.wait(time.Second)
			st.runUntilQuiet()
			if held, _ := st.states(uids); held != want || len(st.claims()) != want {
				t.Errorf("%d are held, claims %v: want %d", held, st.claims(), want)
			}
			if want > 0 && !st.markable() {
				t.Error("no victim may be evicted")
			}
		})
	}
}
