package decide

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func nominate(node string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.NominatedNodeName = node }
}

// A nomination that leads nowhere is cleared with the condition, in one patch, once, whoever wrote it.
func TestStaleNominationIsCleared(t *testing.T) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", nominate("ghost"))
	r.see()
	d := unplaceable("p0", 1, "0/1 nodes are available: 1 full.")
	d.StaleNomination, d.PodResourceVersion = "ghost", r.api.now().rv
	r.receive(d)
	if patch := run[effect.PatchCondition](r, delivered); !patch.ClearNomination || patch.NominatedNodeName != "" {
		t.Fatalf("patch %+v does not clear the nomination", patch)
	}
	if name := r.api.now().pods["p0-uid"].Status().NominatedNodeName; name != "" {
		t.Fatalf("nominated to %q", name)
	}
	d.Token = ledger.Token(2).String()
	r.receive(d)
	r.quiet("the facts do not show the patch yet")
	r.see()
	d.Token = ledger.Token(3).String()
	r.receive(d)
	r.quiet("it is cleared, and the condition has not changed")
	r.wantDecisions(events.DecisionCondition, events.DecisionCondition, events.DecisionCondition)
}

// A nomination is cleared even if the condition shows already, and if the binder's facts are older than the decision.
func TestStaleNominationAlone(t *testing.T) {
	r := newRig(t, 1)
	d := unplaceable("p0", 1, "0/1 nodes are available: 1 full.")
	r.receive(d)
	run[effect.PatchCondition](r, delivered)
	r.see()
	r.api.changePod("p0-uid", nominate("ghost")) // which this binder does not see yet
	d.Token, d.StaleNomination, d.PodResourceVersion = ledger.Token(2).String(), "ghost", r.api.now().rv
	r.receive(d)
	if patch := run[effect.PatchCondition](r, delivered); !patch.ClearNomination {
		t.Fatal("the nomination is not cleared")
	}
	r.see()
	r.wait(time.Second)
	r.quiet("afterwards")
}

// Left alone are: a name that the decision did not know, the name of a place that is held or reserved, and all names
// if the decision is of a version that does not know about them.
func TestNominationThatIsNotStale(t *testing.T) {
	r := newRig(t, 1)
	d := unplaceable("p0", 1, "0/1 nodes are available: 1 full.")
	d.StaleNomination, d.PodResourceVersion = "ghost", r.api.now().rv
	r.api.changePod("p0-uid", nominate("another"))
	r.see()
	r.receive(d)
	if patch := run[effect.PatchCondition](r, delivered); patch.ClearNomination {
		t.Fatal("a name was cleared that was written after the decision")
	}
	r.see()
	d.Token, d.StaleNomination, d.Message = ledger.Token(2).String(), "", "0/1 nodes are available: 1 tainted."
	r.receive(d)
	if patch := run[effect.PatchCondition](r, delivered); patch.ClearNomination {
		t.Fatal("a name was cleared by a decision that is not about it")
	}
	r.see()
	d.Token, d.StaleNomination, d.Message = ledger.Token(3).String(), "another", "0/1 nodes are available: 1 gone."
	r.reserve()
	r.b.lines = nil // the bind, which is under way
	r.receive(d)
	r.quiet("the pod is being bound")
}

// A binder that starts clears the name of a place that was given up while the binder that had written it was down. The
// end of the hold is in the log, and may arrive before the ledger and the facts show it.
func TestNominationOfAPlaceThatEndedMeanwhile(t *testing.T) {
	for _, order := range []string{"ledger first", "decision first", "the next attempt"} {
		t.Run(order, func(t *testing.T) {
			r := newPlanRig(t, 1)
			plan := r.nominated(0, "v4")
			performNext[effect.Nominate](r, delivered)
			r.see()
			d := events.Decision{
				Kind: events.DecisionWithdrawn, Pod: about("p0"), SchedulerName: "berth", Token: r.tokens.String(),
				NodeUID: "n0-uid", NodeName: "n0", Message: "The place held for it on node n0 was given up.",
				PodResourceVersion: 1, LedgerRevision: r.kv.revision + 1,
			}
			if order == "the next attempt" {
				d = unplaceable("p0", 9, "0/2 nodes are available.")
				d.StaleNomination, d.PodResourceVersion = "n0", r.api.now().rv
			}
			r.b.lines = nil
			if order == "decision first" {
				r.bootPlans(r.b)
				r.receive(d)
				r.quietAbout("p0-uid", "its hold is in the ledger")
				r.abortPlan(plan)
			} else {
				r.abortPlan(plan)
				r.bootPlans(r.b)
				r.receive(d)
			}
			r.see()
			r.wait(time.Second)
			if patch := performNext[effect.PatchCondition](r, delivered); !patch.ClearNomination {
				t.Fatalf("%+v does not clear the nomination", patch)
			}
			r.see()
			if name := r.api.now().pods["p0-uid"].Status().NominatedNodeName; name != "" {
				t.Fatalf("nominated to %q, though nothing is held there", name)
			}
		})
	}
}

// quietAbout requires that no write to a pod's status is pending.
func (r *planRig) quietAbout(pod, why string) {
	r.Helper()
	for _, e := range r.b.lines {
		switch e := e.(type) {
		case effect.PatchCondition:
			if e.Pod.UID == pod && e.ClearNomination {
				r.Fatalf("%s: %+v is to be sent", why, e)
			}
		case effect.Nominate:
			if e.Pod.UID == pod && e.NodeName == "" {
				r.Fatalf("%s: %+v is to be sent", why, e)
			}
		}
	}
}

// clearing is a binder that is about to clear p0's nomination, which leads nowhere, at the version that it knows.
func clearing(t *testing.T) (*rig, effect.PatchCondition) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", nominate("ghost"))
	r.see()
	d := unplaceable("p0", 1, "0/1 nodes are available: 1 full.")
	d.StaleNomination, d.PodResourceVersion = "ghost", r.api.now().rv
	r.receive(d)
	patch := next[effect.PatchCondition](r)
	if !patch.ClearNomination || patch.ResourceVersion != r.api.now().rv {
		t.Fatalf("patch %+v, want one that clears the name at resourceVersion %d", patch, r.api.now().rv)
	}
	return r, patch
}

// retried has the patch that waits withdrawn, as the loop does with one that is moot, or sends it and waits for the
// next try. It returns the next patch, which it carries out.
func (r *rig) retried(withdraw bool) effect.PatchCondition {
	r.Helper()
	if withdraw {
		answer(r, func(e effect.PatchCondition) effect.Input { return effect.NotStarted{Op: e.Op} })
	} else {
		run[effect.PatchCondition](r, delivered)
		r.wait(time.Second)
	}
	return run[effect.PatchCondition](r, delivered)
}

func (r *rig) nominatedTo() string { return r.api.now().pods["p0-uid"].Status().NominatedNodeName }

// A patch that clears a name may wait for a worker. A name that another component writes meanwhile is left alone,
// whether the facts show it before the patch is sent or not, and the condition is written all the same.
func TestNameThatIsWrittenWhileTheClearingWaits(t *testing.T) {
	for _, shown := range []bool{true, false} {
		r, patch := clearing(t)
		if _, moot := r.b.core.Moot(patch); moot {
			t.Fatal("moot although nothing has changed")
		}
		r.api.changePod("p0-uid", nominate("another"))
		if shown {
			r.see()
		}
		if _, moot := r.b.core.Moot(patch); moot != shown {
			t.Errorf("moot %t, want %t", moot, shown)
		}
		if again := r.retried(shown); again.ClearNomination || again.ResourceVersion != 0 {
			t.Errorf("the next patch is %+v", again)
		}
		if name := r.nominatedTo(); name != "another" {
			t.Errorf("nominated to %q, want the name that another component has written", name)
		}
		r.wantDecisions(events.DecisionCondition)
		if len(r.reported) != 1 {
			t.Errorf("%d events, want one", len(r.reported))
		}
	}
}

// Any other change of the pod meanwhile only delays the clearing.
func TestPodThatChangesWhileTheClearingWaits(t *testing.T) {
	for _, shown := range []bool{true, false} {
		r, _ := clearing(t)
		r.api.changePod("p0-uid", annotate("example.com/note", "x"))
		if shown {
			r.see()
		}
		if again := r.retried(shown); !again.ClearNomination || r.nominatedTo() != "" {
			t.Errorf("the next patch is %+v, and the pod is nominated to %q", again, r.nominatedTo())
		}
		r.see()
		r.wait(time.Second)
		r.quiet("afterwards")
	}
}

// A decision that has used a later version of the pod than was read is not judged by what was read.
func TestDecisionAfterTheClearingHasLost(t *testing.T) {
	for _, inFlight := range []bool{true, false} {
		r, _ := clearing(t)
		r.api.changePod("p0-uid", nominate("another"))
		later := unplaceable("p0", 2, "0/2 nodes are available: 2 full.")
		later.StaleNomination, later.PodResourceVersion = "third", r.api.now().rv+1
		answer(r, func(e effect.PatchCondition) effect.Input {
			lost := effect.Answered{Op: e.Op, Result: effect.Conflict, Pod: r.api.now().pods["p0-uid"]}
			r.api.changePod("p0-uid", nominate("third")) // which this binder does not see yet
			if inFlight {
				r.receive(later)
			}
			return lost
		})
		if !inFlight {
			r.receive(later)
		}
		r.wait(time.Second)
		if patch := run[effect.PatchCondition](r, delivered); !patch.ClearNomination || r.nominatedTo() != "" {
			t.Errorf("in flight %t: the next patch is %+v, and the pod is nominated to %q", inFlight, patch, r.nominatedTo())
		}
	}
}

// A pod that turns out to be bound when the clearing has lost gets no condition.
func TestPodThatIsBoundWhileTheClearingWaits(t *testing.T) {
	r, _ := clearing(t)
	r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n0" })
	run[effect.PatchCondition](r, delivered)
	r.wait(time.Second)
	r.quiet("the pod is bound")
}

// The decision has seen a version that the API server has lost, as after a restore of its etcd: the pod is judged as it
// is.
func TestClearingByADecisionFromTheFuture(t *testing.T) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", nominate("another"))
	r.see()
	d := unplaceable("p0", 1, "0/1 nodes are available: 1 full.")
	d.StaleNomination, d.PodResourceVersion = "ghost", r.api.now().rv+100
	r.receive(d)
	if again := r.retried(false); again.ClearNomination || r.nominatedTo() != "another" {
		t.Errorf("the next patch is %+v, and the pod is nominated to %q", again, r.nominatedTo())
	}
}

// The end of a hold clears the name that was written for it. It is withdrawn while it waits if the facts show another
// one.
func TestNameThatIsWrittenWhileTheEndOfAHoldWaits(t *testing.T) {
	r := newPlanRig(t, 1)
	plan := r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.wait(time.Minute)
	r.b.lines = nil
	r.abortPlan(plan)
	r.see()
	r.wait(time.Minute)
	var end effect.Nominate
	for i, e := range r.b.lines {
		if e, is := e.(effect.Nominate); is {
			end = e
			r.b.lines = append(r.b.lines[:i:i], r.b.lines[i+1:]...)
			break
		}
	}
	if _, moot := r.b.core.Moot(end); moot || end.Op == 0 || end.NodeName != "" {
		t.Fatalf("%+v, moot %t, want the end of the nomination", end, moot)
	}
	r.api.changePod("p0-uid", nominate("another"))
	r.see()
	if _, moot := r.b.core.Moot(end); !moot {
		t.Fatal("it would clear a name that another component has written")
	}
	r.step(r.b, effect.NotStarted{Op: end.Op})
	r.see()
	r.wait(time.Minute)
	r.quietAbout("p0-uid", "it is another component's name")
}
