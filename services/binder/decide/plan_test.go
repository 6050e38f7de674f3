package decide

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	"github.com/berth-scheduler/berth/services/binder/decide/evict"
)

// This is a complete plan: the hold shows in the pod's status, the covered victim is read and dry-run before anything
// is marked, one transaction marks both victims, then they are evicted.
func TestPlanIsCarriedOut(t *testing.T) {
	r := newPlanRig(t, 1)
	plan := r.nominated(0, "v0", "v4")
	if n := performNext[effect.Nominate](r, delivered); n.Pod.UID != "p0-uid" || n.NodeName != "n0" {
		t.Fatalf("nominated %+v", n)
	}
	if p := performNext[effect.ReadPod](r, delivered).Pod.UID; p != "v0-uid" {
		t.Fatalf("looked at %s first, want the victim under the budget", p)
	}
	if e := performNext[effect.Evict](r, delivered); !e.DryRun {
		t.Fatal("no dry run before the mark")
	}
	r.commitAmend("evict-mark")
	for _, uid := range []string{"v0-uid", "v4-uid"} {
		if e, _ := r.victim(uid); e.State != ledger.Evicting || e.Shard != r.b.id {
			t.Fatalf("%s is %s by %q after the mark", uid, e.State, e.Shard)
		}
	}
	for range 2 {
		if e := performNext[effect.Evict](r, delivered); e.DryRun || e.Delete {
			t.Fatalf("eviction %+v", e)
		}
	}
	for _, d := range r.wantDecisions(events.DecisionEvicted, events.DecisionEvicted) {
		if d.Token != evict.PlanToken(plan) {
			t.Errorf("told under token %s, want the plan's %s", d.Token, plan)
		}
	}
	want := effect.Report{
		Pod: about("v0"), Type: "Normal", Reason: "Preempted", Action: "Preempting",
		Note: "Preempted by pod p0-uid on node n0", Related: about("p0"),
	}
	if len(r.reported) != 2 || r.reported[0] != want {
		t.Fatalf("events %+v, want two like %+v", r.reported, want)
	}
	r.see()
	r.controller()
	r.see()
	r.wait(time.Second)
	r.wait(2 * time.Second)
	r.commitAmend("budget-settle")
	if b := r.truth.Budgets().Of(pdbUID); len(b.Claims) != 0 || b.HW[ledger.KindBudget] == 0 {
		t.Fatalf("the budget after settling: %+v", b)
	}
	r.quiet("the victims leave")
}

// A nomination is one write, of the node's name and the condition, whichever is known first.
func TestNominationIsOneWrite(t *testing.T) {
	nominated := func(r *planRig, token ledger.Token, revision int64) {
		r.receive(events.Decision{
			Kind: events.DecisionNominated, Pod: about("p0"), SchedulerName: "berth", Token: token.String(),
			NodeName: "n0", LedgerRevision: revision, Message: "0/2 nodes are available.",
		})
	}
	unwritten := func(t *testing.T, r *planRig, why string) {
		t.Helper()
		for _, e := range r.b.lines {
			switch e.(type) {
			case effect.Nominate, effect.PatchCondition:
				t.Fatalf("%s: %+v", why, e)
			}
		}
	}
	written := func(t *testing.T, r *planRig) {
		t.Helper()
		p := performNext[effect.PatchCondition](r, delivered)
		if p.NominatedNodeName != "n0" || p.Condition.Type != corev1.PodScheduled {
			t.Fatalf("written %+v, want the condition and the name of the node", p)
		}
		r.see()
		r.wait(time.Second)
		r.commitAmend("evict-mark")
		performNext[effect.Evict](r, delivered)
		r.see()
		r.wait(2 * r.limits.NominateAlone)
		r.quiet("both are written")
	}
	rig := func(t *testing.T) *planRig {
		r := newPlanRig(t, 1)
		r.b.core.base.Limits.NominateAlone = time.Second
		return r
	}
	t.Run("the hold first", func(t *testing.T) {
		r := rig(t)
		r.nominated(0, "v4")
		unwritten(t, r, "the decision is not known")
		nominated(r, r.tokens, r.kv.revision)
		written(t, r)
	})
	t.Run("the decision first", func(t *testing.T) {
		r := rig(t)
		nominated(r, r.tokens+1, r.kv.revision+1)
		unwritten(t, r, "the hold is not known")
		r.nominated(0, "v4")
		written(t, r)
	})
	t.Run("no decision", func(t *testing.T) {
		r := rig(t)
		r.nominated(0, "v4")
		r.wait(time.Second)
		if n := performNext[effect.Nominate](r, delivered); n.NodeName != "n0" {
			t.Fatalf("nominated %+v", n)
		}
	})
}

// A write that waits for a pod is moot once its place may be bound: the patch would conflict with the bind. When
// dropped, it is settled like one that found nothing to change.
func TestStatusesThatBecomeMoot(t *testing.T) {
	r := newPlanRig(t, 1)
	r.b.core.base.Limits.NominateAlone = time.Second
	r.nominated(0, "v4")
	r.receive(events.Decision{
		Kind: events.DecisionNominated, Pod: about("p0"), SchedulerName: "berth", Token: r.tokens.String(),
		NodeName: "n0", LedgerRevision: r.kv.revision, Message: "0/2 nodes are available.",
	})
	var patch effect.PatchCondition
	for _, e := range r.b.lines {
		if p, ok := e.(effect.PatchCondition); ok {
			patch = p
		}
	}
	if op, moot := r.b.core.Moot(patch); patch.Op == 0 || moot {
		t.Fatalf("patch %+v (%d) is moot while the pod waits: %t", patch, op, moot)
	}
	r.commitAmend("evict-mark")
	performNext[effect.Evict](r, delivered)
	r.endPod(4)
	r.seen()
	if err := r.conclude(0, false); err != nil {
		t.Fatal(err)
	}
	r.see()
	op, moot := r.b.core.Moot(patch)
	if !moot || op != patch.Op {
		t.Fatalf("patch %+v is moot: %t, as %d", patch, moot, op)
	}
	before := len(r.published)
	r.b.lines = slices.DeleteFunc(r.b.lines, func(e effect.Effect) bool { return e == effect.Effect(patch) })
	r.step(r.b, effect.NotStarted{Op: op})
	if len(r.published) != before+1 || r.published[before].Kind != events.DecisionCondition {
		t.Errorf("told %+v, want the condition settled", r.published[before:])
	}
	for _, e := range r.b.lines {
		switch e.(type) {
		case effect.PatchCondition, effect.Nominate:
			t.Errorf("%T is to be sent again", e)
		}
	}
}

func TestNothingIsMarkedForAPlanWhoseDryRunFails(t *testing.T) {
	r := newPlanRig(t, 1)
	plan := r.nominated(0, "v0", "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	for range r.limits.EvictionTries {
		performNext[effect.ReadPod](r, delivered)
		answerNext(r, func(e effect.Evict) effect.Input {
			return effect.Answered{Op: e.Op, Result: effect.Throttled, Problem: "no budget"}
		})
		r.quiet("a pause")
		r.wait(time.Second)
	}
	d := r.wantDecisions(events.DecisionEvictRefused)[0]
	if d.Pod.UID != "v0-uid" || d.Token != evict.PlanToken(plan) {
		t.Fatalf("told %+v", d)
	}
	r.see()
	r.quiet("the plan rests")
	if e, _ := r.victim("v4-uid"); e.State != 0 {
		t.Fatal("a victim was marked")
	}
	r.wait(r.limits.PlanPause)
	performNext[effect.ReadPod](r, delivered) // it was not dropped: again
}

// An eviction is refused after the mark: the mark is taken back, and the budget's document records what the call may
// have taken.
func TestRefusedEvictionGoesBack(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v0")
	performNext[effect.Nominate](r, delivered)
	r.see()
	performNext[effect.ReadPod](r, delivered)
	performNext[effect.Evict](r, delivered)
	r.commitAmend("evict-mark")
	for n := range r.limits.EvictionTries {
		if n > 0 {
			r.wait(time.Second)
			performNext[effect.ReadPod](r, delivered)
			performNext[effect.Evict](r, delivered) // dry
		}
		answerNext(r, func(e effect.Evict) effect.Input {
			return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "webhook"}
		})
	}
	r.wait(time.Second)
	performNext[effect.ReadBudget](r, delivered)
	r.commitAmend("evict-failed")
	if e, _ := r.victim("v0-uid"); e.State != 0 || e.Shard != "" {
		t.Fatalf("the claim is %s by %q", e.State, e.Shard)
	}
	if b := r.truth.Budgets().Of(pdbUID); b.HW[ledger.KindBudget] != r.api.now().budget.rv || !b.Claimed("v0-uid") {
		t.Fatalf("the budget: %+v, want a high-water of %d", b, r.api.now().budget.rv)
	}
	r.wantDecisions(events.DecisionEvictRefused)
	r.see()
	r.quiet("the plan rests")
}

// Another binder's eviction may still arrive: its claim is not given back, whatever is refused.
func TestTakenOverEvictionNeverFails(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.commitAmend("evict-mark")
	r.bootPlans(r.b)
	r.see()
	r.quiet("somebody else's, not idle yet")
	r.wait(2 * time.Second)
	r.commitAmend("evict-take")
	for range 2 * r.limits.EvictionTries {
		performNext[effect.ReadPod](r, delivered)
		for len(r.b.lines) > 0 {
			if _, ok := r.b.lines[0].(effect.Evict); ok {
				answerNext(r, func(e effect.Evict) effect.Input {
					return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "no"}
				})
				continue
			}
		}
		r.wait(2 * time.Second)
	}
	if e, _ := r.victim("v4-uid"); e.State != ledger.Evicting {
		t.Fatal("the mark was taken back")
	}
	r.b.lines = nil
}

// A plan that is given up costs no more victims: claims whose evictions were not sent are given back.
func TestAbortedPlanEvictsNoPod(t *testing.T) {
	r := newPlanRig(t, 1)
	// A condition precedes the delete.
	r.b.core.base.Enforces = func(_, rule string) bool { return rule != basis.RuleBudgets }
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.commitAmend("evict-mark")
	r.seen()
	if err := r.conclude(0, true); err != nil {
		t.Fatal(err)
	}
	r.see()
	answerNext(r, func(e effect.PatchCondition) effect.Input { return effect.Answered{Op: e.Op, Result: effect.Done} })
	r.commitAmend("evict-failed")
	r.wait(2 * time.Second)
	performNext[effect.Nominate](r, delivered) // cleared
	r.see()
	r.wait(2 * time.Second)
	performNext[effect.Amend](r, delivered)
	if _, ok := r.victim("v4-uid"); ok {
		t.Fatal("the claim is still there")
	}
	if p := r.api.now().pods["p0-uid"]; p.Status().NominatedNodeName != "" {
		t.Fatal("the pod is still nominated")
	}
}

func TestPlansOfOtherPartitionsAreLeftAlone(t *testing.T) {
	r := newPlanRig(t, 1)
	r.hold(r.b, false)
	r.nominated(0, "v4")
	r.wait(time.Minute)
	r.quiet("another binder's plan")
}

// A profile that respects budgets only as a preference deletes, as kube-scheduler does.
func TestBestEffortDeletes(t *testing.T) {
	r := newPlanRig(t, 1)
	r.b.core.base.Enforces = func(_, rule string) bool { return rule != basis.RuleBudgets }
	r.nominated(0, "v0")
	r.commitAmend("evict-mark")
	c := performNext[effect.PatchCondition](r, delivered).Condition
	if c.Type != corev1.DisruptionTarget || c.Reason != corev1.PodReasonPreemptionByScheduler {
		t.Fatalf("condition %+v", c)
	}
	done := func(e effect.Evict) effect.Input { return effect.Answered{Op: e.Op, Result: effect.Done} }
	if e := answerNext(r, done); !e.Delete || e.DryRun {
		t.Fatalf("eviction %+v, want a deletion", e)
	}
}

// A hold that no process works on is given up after a while, but not while its victims leave.
func TestOverdueHoldIsGivenUp(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.commitAmend("evict-mark")
	performNext[effect.Evict](r, delivered)
	grace := int64(3600)
	r.api.changePod("v4-uid", func(p *corev1.Pod) { p.DeletionGracePeriodSeconds = &grace; annotate("a", "b")(p) })
	r.see()
	r.wait(2 * r.limits.Overdue)
	r.quiet("the victim has an hour to end")
	r.wait(time.Hour)
	performNext[effect.Amend](r, delivered)
	if _, _, held := r.truth.Entry("p0-uid"); held {
		t.Fatal("the hold is still there")
	}
}

func TestRecordsAreDropped(t *testing.T) {
	r := newPlanRig(t, 1)
	record := ledger.PlanRecord{
		ID: ledger.PlanID(9, true), State: ledger.PlanForming, NodeUID: "n0-uid", PodUID: "p9-uid", Victims: 1,
	}
	put := func() {
		txn, err := txns.Change{Plans: []ledger.PlanRecord{record}}.Txn()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.commit(txn); err != nil {
			t.Fatal(err)
		}
		r.see()
	}
	put()
	r.wait(time.Second)
	r.wait(2 * time.Second)
	r.quiet("it may be forming")
	r.wait(r.limits.Overdue)
	r.commitAmend("plan-abort")
	r.see()
	r.wait(time.Second) // seen
	r.wait(2 * time.Second)
	r.commitAmend("plan-drop")
	if _, ok := r.truth.Plans().Record(record.ID); ok {
		t.Fatal("the record is still there")
	}
}
