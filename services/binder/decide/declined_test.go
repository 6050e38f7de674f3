package decide

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// givenUp has a controller take the eviction of a pod on, and give it up.
func (r *planRig) givenUp(pod string) {
	r.Helper()
	r.annotated(state.AnnotationEvictionInProgress, pod)
	r.settle(time.Minute)
	r.unannotated(state.AnnotationEvictionInProgress, pod)
}

// halfDeclined is a plan with two victims whose evictions were requested: the controller works on that of v4, and has
// given that of v5 up. The plan's place is held, because v4 may leave at any time.
func halfDeclined(t *testing.T) (r *planRig, plan string) {
	r = newPlanRig(t, 1)
	r.annotated(state.AnnotationRequestEvictOnly, "v4", "v5")
	plan = r.nominated(0, "v4", "v5")
	r.settle(time.Second)
	r.annotated(state.AnnotationEvictionInProgress, "v4")
	r.givenUp("v5")
	r.settle(time.Second)
	if claim, ok := r.victim("v5-uid"); !ok || claim.State == ledger.Evicting {
		t.Fatalf("the claim on v5 is %+v (%t), want it given back", claim, ok)
	}
	return r, plan
}

// requestedOnce requires that one eviction of each pod was sent.
func (r *planRig) requestedOnce(pods ...string) {
	r.Helper()
	for _, pod := range pods {
		if n := r.calls[pod+"-uid"]; n != 1 {
			r.Errorf("%d evictions of %s were sent, want one", n, pod)
		}
	}
}

// Of one victim of a plan, one request is made, also if it comes to nothing while other victims are still on their way:
// by the binder that has made it, by that binder after a restart, and by one that takes its partitions over. The plan
// is not carried on; what is to become of it is for its shard to decide.
func TestDeclinedRequestIsNotRepeated(t *testing.T) {
	for name, change := range map[string]func(r *planRig){
		"same binder": func(*planRig) {},
		"restart": func(r *planRig) {
			r.b.lines = nil
			r.bootPlans(r.b)
			r.see()
		},
		"another binder": func(r *planRig) {
			other := &member{now: r.b.now, facts: r.b.facts}
			r.binders = append(r.binders, other)
			r.bootPlans(other)
			r.hold(other, false)
			r.hold(r.b, false)
			r.b = other
			r.hold(other, true)
			r.see()
		},
	} {
		t.Run(name, func(t *testing.T) {
			r, plan := halfDeclined(t)
			change(r)
			for range 5 {
				r.settle(20 * time.Minute)
			}
			r.requestedOnce("v4", "v5")
			if claim, ok := r.victim("v5-uid"); !ok || claim.State == ledger.Evicting || !claim.Declined {
				t.Errorf("the claim on v5 is %+v (%t), want it declined, and not marked again", claim, ok)
			}
			if _, _, held := r.truth.Plans().Owner(plan); !held {
				t.Error("the place was given up during the migration")
			}
		})
	}
}

// A binder dies at any moment after the controller has given up. The next one does not request it again.
func TestDeclinedRequestSurvivesBinders(t *testing.T) {
	for steps := range 4 {
		t.Run(fmt.Sprint(steps, " steps"), func(t *testing.T) {
			r := newRequestRig(t)
			r.annotated(state.AnnotationRequestEvictOnly, "v4")
			r.nominated(0, "v0", "v4")
			r.settle(time.Second)
			r.annotated(state.AnnotationEvictionInProgress, "v4", "v0")
			r.settle(time.Minute)
			r.unannotated(state.AnnotationEvictionInProgress, "v0")
			for i := 0; i < steps && len(r.b.lines) > 0; i++ {
				r.performFirst(delivered)
			}
			r.b.lines = nil
			r.bootPlans(r.b)
			r.see()
			for range 5 {
				r.settle(20 * time.Minute)
			}
			r.requestedOnce("v0", "v4")
		})
	}
}

// A pod that is not annotated any more can be evicted like any other, for the same plan. If it is annotated once more
// before that, nothing is sent.
func TestDeclinedPodThatBecomesAnOrdinaryOne(t *testing.T) {
	t.Run("it is evicted", func(t *testing.T) {
		r, _ := halfDeclined(t)
		r.unannotated(state.AnnotationRequestEvictOnly, "v5")
		r.settle(2 * r.limits.PlanPause)
		if n := r.evicted["v5-uid"]; n != 1 {
			t.Errorf("%d evictions made v5 leave, want one", n)
		}
	})
	t.Run("it is annotated again", func(t *testing.T) {
		r, _ := halfDeclined(t)
		r.unannotated(state.AnnotationRequestEvictOnly, "v5")
		r.wait(2 * r.limits.PlanPause)
		r.commitAmend("evict-mark")
		r.b.lines = nil // the eviction, which the binder dies before
		r.bootPlans(r.b)
		r.annotated(state.AnnotationRequestEvictOnly, "v5")
		for range 3 {
			r.settle(20 * time.Minute)
		}
		r.requestedOnce("v4", "v5")
	})
	t.Run("it is annotated again at once", func(t *testing.T) {
		r, _ := halfDeclined(t)
		r.b.lines = nil
		r.bootPlans(r.b)
		r.unannotated(state.AnnotationRequestEvictOnly, "v5")
		r.wait(2 * r.limits.PlanPause)
		mark := performNext[effect.Amend](r, delivered)
		r.annotated(state.AnnotationRequestEvictOnly, "v5")
		for i, e := range r.b.lines { // no worker has taken it, and it is moot
			if e, is := e.(effect.Evict); is {
				r.b.lines = append(r.b.lines[:i:i], r.b.lines[i+1:]...)
				r.step(r.b, effect.NotStarted{Op: e.Op})
				break
			}
		}
		for range 3 {
			r.settle(20 * time.Minute)
		}
		if mark.Why != "evict-mark" {
			t.Errorf("a transaction for %s, want the mark", mark.Why)
		}
		r.requestedOnce("v4", "v5")
		if claim, _ := r.victim("v5-uid"); claim.State == ledger.Evicting {
			t.Error("the claim on v5 is marked still")
		}
	})
}

// A binder dies after it has given the claim of an order, or of a move, back, and before it has reported that. The next
// binder reports the refusal, and makes no other request.
func TestDeclinedOrderIsReportedByTheNextBinder(t *testing.T) {
	for name, order := range map[string]func(r *planRig) events.Decision{
		"order": func(*planRig) events.Decision { return orderEvict("v4", 1) },
		"move":  func(r *planRig) events.Decision { return r.moved(4) },
	} {
		t.Run(name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			r.annotated(state.AnnotationRequestEvictOnly, "v4")
			d := order(r)
			r.receive(d)
			r.settle(time.Second)
			r.annotated(state.AnnotationEvictionInProgress, "v4")
			r.unannotated(state.AnnotationEvictionInProgress, "v4")
			e := performNext[effect.Amend](r, answerLost)
			if e.Why != "evict-failed" {
				t.Fatalf("a transaction for %s, want the end of the eviction", e.Why)
			}
			r.published, r.b.lines = nil, nil
			r.bootPlans(r.b)
			r.see()
			r.settle(2 * r.limits.Idle) // the sweep finds a claim that no plan wants before the order is read again
			r.receive(d)
			r.settle(time.Minute)
			if last := r.wantDecisions(events.DecisionEvictRefused)[0]; last.Token != d.Token {
				t.Errorf("reported %+v", last)
			}
			r.requestedOnce("v4")
			r.settle(2 * r.limits.ReportWithin)
			r.wantLeft("after the end", 0, 0)
		})
	}
}
