package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// lose answers all pending effects as if nothing had arrived, and counts evictions.
func (r *planRig) lose() (evictions int) {
	for len(r.b.lines) > 0 {
		e := r.b.lines[0]
		if e, is := e.(effect.Evict); is && !e.DryRun {
			evictions++
		}
		r.b.lines = r.b.lines[1:]
		r.step(r.b, unknownPlan(e))
	}
	return evictions
}

// abortPlan makes the shard give a plan up; marks stay.
func (r *planRig) abortPlan(plan string) {
	r.Helper()
	abort, err := txns.AbortPlan(txns.Abort{Plan: plan, Docs: r.truth.Plans().Docs(plan)})
	if err != nil {
		r.Fatal(err)
	}
	r.changed(abort)
}

// An eviction waits for a worker, and its plan is given up: it would be pointless.
func TestEvictionOfAPlanThatIsGivenUpIsMoot(t *testing.T) {
	r := marked(t)
	r.useDefaultEvictionHang()
	e := next[effect.Evict](&rig{T: t, world: r.world, b: r.b})
	claim, _ := r.victim("v4-uid")
	r.abortPlan(claim.Plan)
	r.see()
	if op, moot := r.b.core.Moot(e); !moot || op != e.Op {
		t.Fatalf("moot %t as %d, want it to be as %d", moot, op, e.Op)
	}
	r.b.lines = nil
	r.step(r.b, effect.NotStarted{Op: e.Op})
	for range 2 * defaults.EvictionHang / (10 * time.Second) {
		r.see()
		r.wait(10 * time.Second)
		for len(r.b.lines) > 0 {
			if e, is := r.b.lines[0].(effect.Evict); is {
				t.Fatalf("%+v for a plan that was given up", e)
			}
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				t.Fatal(err)
			}
		}
	}
	if claim, ok := r.victim("v4-uid"); ok {
		t.Errorf("the claim is left: %+v", claim)
	}
}

// A worker does not begin an eviction whose time has expired by the wall clock, because the machine was suspended or
// its clock was set. The claim is read again, after a pause, and the next eviction has its time from then on.
func TestEvictionThatIsNotTakenIsConfirmed(t *testing.T) {
	r := marked(t)
	r.useDefaultEvictionHang()
	e := next[effect.Evict](&rig{T: t, world: r.world, b: r.b})
	r.b.lines = nil
	r.step(r.b, effect.NotStarted{Op: e.Op})
	r.quiet("not before a pause")
	r.wait(time.Second)
	read := r.b.now
	performNext[effect.ReadPod](r, delivered)
	performNext[effect.ReadDoc](r, delivered)
	again := next[effect.Evict](&rig{T: t, world: r.world, b: r.b})
	if want := read.Add(r.limits.EvictWithin + r.limits.Call); !again.NotAfter.Equal(want) {
		t.Errorf("sent with time until %s, want %s, from the read of the claim on", again.NotAfter, want)
	}
}

// The preemptor is deleted after the mark and before the eviction is sent, and no shard has seen that: no pod needs
// the place.
func TestNoPodIsEvictedForADeletedPod(t *testing.T) {
	r := marked(t)
	r.useDefaultEvictionHang()
	e := next[effect.Evict](&rig{T: t, world: r.world, b: r.b})
	r.api.deletePod("p0-uid")
	r.see()
	if _, moot := r.b.core.Moot(e); !moot {
		t.Error("the eviction that waits is not moot")
	}
	r.b.lines = nil
	r.step(r.b, effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"})
	for range 10 {
		r.wait(time.Second)
		for _, e := range r.b.lines {
			if e, is := e.(effect.Evict); is {
				t.Fatalf("%+v for a pod that is deleted", e)
			}
		}
	}
	claim, _ := r.victim("v4-uid")
	r.abortPlan(claim.Plan)
	for range 2 * defaults.EvictionHang / (10 * time.Second) {
		r.see()
		r.wait(10 * time.Second)
		for len(r.b.lines) > 0 {
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				t.Fatal(err)
			}
		}
	}
	if claim, ok := r.victim("v4-uid"); ok || r.evicted["v4-uid"] > 0 {
		t.Errorf("claimed %t (%+v), evicted %d times", ok, claim, r.evicted["v4-uid"])
	}
}

// orderTime is how long the orders of these tests are valid.
const orderTime = 5 * time.Minute

// useDefaultEvictionHang sets how long evictions without an answer count as in flight to the value of DefaultLimits.
func (r *planRig) useDefaultEvictionHang() {
	r.limits.EvictionHang, r.b.core.base.Limits.EvictionHang = defaults.EvictionHang, defaults.EvictionHang
}

func (r *planRig) order(pod string, token uint64) events.Decision {
	d := orderEvict(pod, token)
	d.NotAfter = r.b.now.Add(orderTime).Round(0)
	return d
}

// withoutAPIServer carries out the ledger's effects and answers all others with Unknown. It returns how many
// evictions were sent.
func (r *planRig) withoutAPIServer(t *testing.T) (sent int) {
	for len(r.b.lines) > 0 {
		switch e := r.b.lines[0].(type) {
		case effect.Amend, effect.ReadDoc:
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				t.Fatal(err)
			}
			continue
		case effect.Evict:
			if !e.DryRun {
				sent++
			}
		}
		e := r.b.lines[0]
		r.b.lines = r.b.lines[1:]
		r.step(r.b, unknownPlan(e))
	}
	return sent
}

// The API server does not answer for half an hour. The requester of the eviction has long considered it lost, and
// requested another one.
func TestOrderToEvictEnds(t *testing.T) {
	r := newPlanRig(t, 1)
	r.useDefaultEvictionHang()
	r.receive(r.order("v4", 1))
	r.commitAmend("evict-claim")
	begin, sent := r.b.now, 0
	for r.b.now.Sub(begin) < 30*time.Minute {
		n := r.withoutAPIServer(t)
		if n > 0 && r.b.now.Sub(begin) > orderTime {
			t.Fatalf("the eviction is sent %s after it was asked for", r.b.now.Sub(begin))
		}
		sent += n
		r.see()
		r.wait(time.Second)
	}
	if claim, ok := r.victim("v4-uid"); ok || sent == 0 {
		t.Errorf("%d evictions were sent; the claim is there %t: %+v", sent, ok, claim)
	}
	r.see()
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "not carried out by") {
		t.Errorf("refused because %q", d.Message)
	}
}

// A binder that takes a claim over has not seen the order.
func TestOrderEndsForWhoTakesItsClaimOver(t *testing.T) {
	r := newPlanRig(t, 1)
	r.useDefaultEvictionHang()
	r.receive(r.order("v4", 1))
	r.commitAmend("evict-claim")
	r.b.lines = nil
	r.bootPlans(r.b)
	r.see()
	r.wait(orderTime)
	for range 2 * defaults.EvictionHang / (10 * time.Second) {
		for len(r.b.lines) > 0 {
			if e, is := r.b.lines[0].(effect.Evict); is && !e.DryRun {
				t.Fatalf("%+v after the order has ended", e)
			}
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				t.Fatal(err)
			}
		}
		r.see()
		r.wait(10 * time.Second)
	}
	if claim, ok := r.victim("v4-uid"); ok {
		t.Errorf("the claim is left: %+v", claim)
	}
}

// An order that is read after it has ended claims nothing.
func TestOrderThatHasEndedIsRefused(t *testing.T) {
	r := newPlanRig(t, 1)
	d := r.order("v4", 1)
	r.wait(orderTime)
	r.receive(d)
	r.quiet("too late")
	r.wantDecisions(events.DecisionEvictRefused)
}

// An order of an earlier version has no end: the binder keeps trying.
func TestOrderWithoutAnEndIsValid(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(orderEvict("v4", 1))
	r.commitAmend("evict-claim")
	r.lose()
	r.wait(3 * orderTime)
	performNext[effect.ReadPod](r, delivered)
	performNext[effect.ReadDoc](r, delivered)
	performNext[effect.Evict](r, delivered)
	r.wantDecisions(events.DecisionEvicted)
}

// The claim of an eviction is in flight while the ledger begins a new generation. It loses, and the eviction is not
// requested in this generation.
func TestClaimOnItsWayIntoANewGenerationIsGivenUp(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(orderEvict("v4", 1))
	claim := performNext[effect.Amend](r, requestLost)
	if claim.Why != "evict-claim" {
		t.Fatalf("%s, want the claim", claim.Why)
	}
	r.wait(time.Second)
	again := next[effect.Amend](&rig{T: t, world: r.world, b: r.b})
	r.b.lines = nil
	g := identity.Generation{Number: 2, Open: true, FactsAfter: 7}
	value, err := identity.EncodeGeneration(g)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.commit(ledger.Txn{Puts: []ledger.Put{{Key: identity.KeyGeneration, Value: value}}}); err != nil {
		t.Fatal(err)
	}
	r.showLedger(r.b, len(r.kv.log))
	v := r.api.now()
	r.step(r.b, effect.FactsChanged{
		Cluster: v, Sequence: 99, Epoch: 8, PodProgress: v.rv, PodProgressKnown: true, BudgetProgress: v.rv,
	})
	r.step(r.b, effect.Amended{Op: again.Op, Result: effect.Lost})
	r.wantDecisions(events.DecisionEvictRefused)
	r.wait(time.Minute)
	r.quiet("it was asked for before the ledger began anew")
}

// An order that is read late was decided on facts from before the ledger's new generation.
func TestOrderFromFactsOfBeforeIsRefused(t *testing.T) {
	r := newRig(t, 1)
	r.begins(2, 7)
	now := r.api.now()
	r.step(r.b, effect.FactsChanged{Cluster: now, Sequence: 60, Epoch: 8, PodProgress: now.rv, PodProgressKnown: true})
	old := orderEvict("p0", 1)
	old.FactEpoch = 7
	r.receive(old)
	r.quiet("decided on facts of before")
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "begins anew") {
		t.Errorf("refused because %q", d.Message)
	}
}
