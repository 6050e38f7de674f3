package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// moved is T12: a place on n1 is kept for the replacement of a pod. It returns the request for the eviction.
func (r *planRig) moved(victim int) events.Decision {
	r.Helper()
	r.seen()
	a := r.agents[len(r.agents)-1]
	v, ok := a.victim(victim)
	if !ok {
		r.Fatalf("v%d is no victim", victim)
	}
	r.tokens++
	c, err := txns.Relocate(txns.Relocation{
		Placeholder: txns.NodeEntry{NodeUID: "n1-uid", Entry: ledger.Entry{
			Namespace: "ns", Name: v.Entry.Name, Token: r.tokens, Replacement: ledger.Replacement{Owner: "rs", Template: "t"},
		}},
		Victim: v, Docs: a.docs(), Budgets: a.rooms(), Facts: a,
	})
	if err != nil {
		r.Fatal(err)
	}
	r.carry(c)
	d := orderEvict(strings.TrimSuffix(v.Entry.PodUID, "-uid"), uint64(r.tokens))
	d.LedgerRevision = r.kv.revision
	return d
}

// carry commits another member's change.
func (r *planRig) carry(c txns.Change) {
	r.Helper()
	txn, err := c.Txn()
	if err != nil {
		r.Fatal(err)
	}
	if result, err := r.commit(txn); err != nil || !result.Succeeded {
		r.Fatalf("%+v: %v", result, err)
	}
	r.see()
}

// left counts what the ledger has of moves.
func (r *planRig) left() (places, victims int) {
	for d := range r.truth.Docs() {
		for _, e := range d.Entries {
			switch e.Role {
			case ledger.RoleMove:
				places++
			case ledger.RoleVictim:
				victims++
			}
		}
	}
	return places, victims
}

func (r *planRig) wantLeft(when string, places, victims int) {
	r.Helper()
	if p, v := r.left(); p != places || v != victims {
		r.Fatalf("%s: %d places are kept and %d pods claimed, want %d and %d", when, p, v, places, victims)
	}
}

// takeOver is T1 of the replacement of a pod that is moved.
func (r *planRig) takeOver() {
	r.Helper()
	d, _ := r.truth.Doc("n1-uid")
	e, ok := r.reservation(r.agents[0], 0, 0)
	if !ok {
		r.Fatal("p0 has a place")
	}
	e.State = ledger.Committed
	d, err := txns.TakeOver(d, ledger.Replacement{Owner: "rs", Template: "t"}, 0, e)
	if err != nil {
		r.Fatal(err)
	}
	r.carry(txns.Change{Docs: []ledger.NodeDoc{d}})
}

// A move is carried out once both are known: the place in the ledger, and the request in the log.
func TestMoveIsCarriedOut(t *testing.T) {
	for _, first := range []string{"the place", "the ask"} {
		t.Run(first+" first", func(t *testing.T) {
			r := newPlanRig(t, 1)
			var ask events.Decision
			if first == "the place" {
				ask = r.moved(0)
				r.wait(time.Second)
				r.quiet("nobody has asked")
				r.receive(ask)
			} else {
				ask = orderEvict("v0", uint64(r.tokens+1))
				ask.LedgerRevision = r.kv.revision + 1
				r.receive(ask)
				r.quiet("no place is kept yet")
				r.moved(0)
			}
			performNext[effect.ReadPod](r, delivered)
			if !performNext[effect.Evict](r, delivered).DryRun {
				t.Fatal("no dry run under a budget")
			}
			r.commitAmend("evict-mark")
			if e := performNext[effect.Evict](r, delivered); e.DryRun || e.Strategy != ask.Strategy {
				t.Fatalf("eviction %+v", e)
			}
			if d := r.wantDecisions(events.DecisionEvicted)[0]; d.Token != ask.Token {
				t.Fatalf("told %+v", d)
			}
			r.see()
			r.endPod(0)
			r.see()
			r.takeOver()
			r.wait(2 * time.Second)
			r.see()
			r.wantLeft("the replacement has the place", 0, 1) // handed over by the next sweep
		})
	}
}

// An eviction that the API server refuses ends the move: one try, then the place is free.
func TestMoveThatIsRefused(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(r.moved(0))
	performNext[effect.ReadPod](r, delivered)
	answerNext(r, func(e effect.Evict) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Throttled, Problem: "would violate the budget"}
	})
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "would violate the budget") {
		t.Fatalf("told %q", d.Message)
	}
	r.commitAmend("move-abort")
	r.wantLeft("refused", 0, 0)
	if r.truth.Budgets().Of(pdbUID).Claimed("v0-uid") {
		t.Error("the budget is still claimed")
	}
	r.quiet("it is over")
}

// A pod of the same owner takes the place before the eviction is sent: then no pod has to be evicted.
func TestMoveWhosePlaceIsTakenEarly(t *testing.T) {
	r := newPlanRig(t, 1)
	ask := r.moved(4)
	r.takeOver()
	r.b.lines = nil // the bind of the pod that took it
	r.receive(ask)
	r.quiet("the place is gone")
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "no place is kept") {
		t.Fatalf("told %q", d.Message)
	}
}

// A place is not kept forever: neither if the eviction is not requested, nor if no replacement comes.
func TestMoveExpires(t *testing.T) {
	t.Run("nobody asks", func(t *testing.T) {
		r := newPlanRig(t, 1)
		r.moved(0)
		r.wait(r.limits.KeepPlace)
		r.quiet("it is time still")
		r.wait(time.Second)
		r.commitAmend("move-abort")
		r.wantLeft("nobody asked", 0, 0)
		r.wantDecisions()
	})
	t.Run("nobody comes", func(t *testing.T) {
		r := newPlanRig(t, 1)
		r.receive(r.moved(4))
		r.commitAmend("evict-mark")
		performNext[effect.Evict](r, delivered)
		r.wantDecisions(events.DecisionEvicted)
		r.see()
		r.wait(r.limits.KeepPlace + time.Second)
		r.wantLeft("the pod is leaving", 1, 1)
		r.endPod(4)
		r.see()
		r.wait(time.Second)
		r.b.lines = nil
		r.wait(r.limits.KeepPlace + time.Second)
		r.commitAmend("move-abort")
		if places, _ := r.left(); places > 0 {
			t.Error("the place is still kept")
		}
		r.wantDecisions()
	})
	t.Run("it does not leave", func(t *testing.T) {
		r := newPlanRig(t, 1)
		r.receive(r.moved(4))
		r.commitAmend("evict-mark")
		performNext[effect.Evict](r, delivered)
		r.wantDecisions(events.DecisionEvicted)
		r.see()
		r.wait(r.limits.Overdue + time.Second)
		r.commitAmend("move-abort")
		r.wantLeft("what was sent stays claimed", 0, 1)
	})
}

// Marks are valid for a binder that starts: it sends the eviction again, after a read of the pod, and only after it
// has taken the claim over.
func TestMoveGoesOnAfterACrash(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(r.moved(4))
	r.commitAmend("evict-mark")
	r.bootPlans(r.b)
	r.share(r.b, 0)
	r.see()
	r.wait(2 * time.Second)
	r.commitAmend("evict-take")
	performNext[effect.ReadPod](r, delivered)
	if e := performNext[effect.Evict](r, delivered); e.DryRun {
		t.Fatalf("eviction %+v", e)
	}
	if d := r.wantDecisions(events.DecisionEvicted)[0]; d.Pod.UID != "v4-uid" {
		t.Fatalf("told %+v", d)
	}
}
