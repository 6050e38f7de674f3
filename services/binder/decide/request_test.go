package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// newRequestRig has a budget that allows nothing and covers v0, whose eviction a webhook answers with a migration.
func newRequestRig(t *testing.T) *planRig {
	r := newPlanRig(t, 0)
	r.annotated(state.AnnotationRequestEvictOnly, "v0")
	return r
}

// annotated annotates a pod, and shows that.
func (r *planRig) annotated(key string, pods ...string) {
	for _, pod := range pods {
		r.api.changePod(pod+"-uid", annotate(key, ""))
	}
	r.see()
}

// unannotated removes an annotation, and shows that.
func (r *planRig) unannotated(key, pod string) {
	old := r.api.now().pods[pod+"-uid"].Object().DeepCopy()
	delete(old.Annotations, key)
	r.api.write(func(v *apiVersion) {
		old.ResourceVersion = fmt.Sprint(v.rv)
		v.pods[pod+"-uid"] = state.NewPod(old)
	})
	r.see()
}

// requested is an order for v0 up to the answer of the webhook.
func (r *planRig) requested(order events.Decision) effect.Evict {
	r.Helper()
	r.receive(order)
	r.commitAmend("evict-claim")
	performNext[effect.ReadPod](r, delivered)
	e := performNext[effect.Evict](r, delivered)
	if e.DryRun || !e.Request {
		r.Fatalf("sent %+v, want the request itself, without a dry run", e)
	}
	if d := r.wantDecisions(events.DecisionEvictBackground)[0]; d.Token != order.Token || d.Strategy != order.Strategy {
		r.Fatalf("reported %+v", d)
	}
	return e
}

// migrated is the end of a migration: v0 is gone, which no eviction has taken from its budget.
func (r *planRig) migrated() {
	r.foreign, r.stopped = true, true
	r.api.deletePod("v0-uid")
	r.see()
}

// waited lets time pass in steps, and requires that nothing is sent.
func (r *planRig) waited(d time.Duration) {
	r.Helper()
	for range 20 {
		r.wait(d / 20)
		r.quiet("it waits for the controller")
	}
}

// A pod that is annotated is requested once, although its budget allows nothing; the claim counts against the budget,
// and the outcome is reported when the pod has left, however long that takes once a controller shows that it works on
// it.
func TestRequestIsMadeOnceAndWaitedFor(t *testing.T) {
	r := newRequestRig(t)
	order := orderEvict("v0", 1)
	order.Message, order.NotAfter = "triggered by p/RemoveDuplicates: why", r.b.now.Add(5*time.Minute)
	e := r.requested(order)
	if e.Reason != order.Message || e.RequestedBy != "sigs.k8s.io/descheduler" {
		t.Errorf("annotations %q and %q", e.Reason, e.RequestedBy)
	}
	if !r.truth.Budgets().Of(pdbUID).Claimed("v0-uid") {
		t.Error("nothing is claimed from the budget")
	}
	r.waited(9 * time.Minute)
	r.annotated(state.AnnotationEvictionInProgress, "v0")
	r.quiet("a controller works on it")
	r.waited(3 * time.Hour)
	r.receive(order) // redelivered
	r.quiet("redelivered")
	if claim, ok := r.victim("v0-uid"); !ok || claim.State != ledger.Evicting {
		t.Fatalf("the claim is %+v (%t)", claim, ok)
	}
	r.migrated()
	r.wantDecisions(events.DecisionEvicted)
	if n := r.calls["v0-uid"]; n != 1 {
		t.Errorf("%d evictions were sent, want one", n)
	}
}

// A request ends without success when the controller gives it up, when the pod becomes an ordinary one, and when no
// controller has taken it on in time. Then the claim goes, and it is a refusal.
func TestRequestThatIsTurnedDown(t *testing.T) {
	for name, tt := range map[string]struct {
		end  func(r *planRig)
		want string
	}{
		"given up": {func(r *planRig) {
			r.annotated(state.AnnotationEvictionInProgress, "v0")
			r.waited(time.Hour)
			r.unannotated(state.AnnotationEvictionInProgress, "v0")
		}, "has given it up"},
		"an ordinary pod": {func(r *planRig) {
			r.waited(time.Minute)
			r.unannotated(state.AnnotationRequestEvictOnly, "v0")
		}, "not requests any more"},
		"not taken on": {func(r *planRig) {
			r.waited(r.limits.RequestFor - time.Second)
			r.wait(2 * time.Second)
		}, "no controller has taken its eviction on within 10m0s"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRequestRig(t)
			order := orderEvict("v0", 1)
			order.EventOnFailure = true
			r.requested(order)
			tt.end(r)
			performNext[effect.ReadBudget](r, delivered)
			r.commitAmend("evict-failed")
			if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, tt.want) {
				t.Fatalf("refused because %q, want %q", d.Message, tt.want)
			}
			r.see()
			r.wait(r.limits.ReportWithin + 10*time.Second)
			r.commitAmend("sweep")
			if _, ok := r.victim("v0-uid"); ok || r.truth.Budgets().Of(pdbUID).Claimed("v0-uid") {
				t.Fatal("the claim is still there")
			}
			if r.calls["v0-uid"] != 1 {
				t.Errorf("%d evictions were sent, want one", r.calls["v0-uid"])
			}
		})
	}
}

// An answer that says nothing of a controller is a refusal also for a pod that is annotated, and the answer of a
// webhook is one for a pod that is not.
func TestRefusalsThatAreNoRequests(t *testing.T) {
	for name, tt := range map[string]struct {
		pod    string
		answer effect.Answered
	}{
		"too many requests":     {"v0", effect.Answered{Result: effect.Throttled, Problem: "too many requests"}},
		"forbidden by a policy": {"v0", effect.Answered{Result: effect.Refused, Problem: "denied the request"}},
		"not annotated":         {"v4", effect.Answered{Result: effect.Throttled, Problem: "evacuation", Intercepted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRequestRig(t)
			r.receive(orderEvict(tt.pod, 1))
			r.commitAmend("evict-claim")
			if tt.pod == "v0" {
				performNext[effect.ReadPod](r, delivered)
			}
			answerNext(r, func(e effect.Evict) effect.Input {
				tt.answer.Op = e.Op
				return tt.answer
			})
			r.wait(time.Second)
			if tt.pod == "v0" {
				performNext[effect.ReadBudget](r, delivered)
			}
			r.commitAmend("evict-failed")
			r.wantDecisions(events.DecisionEvictRefused)
		})
	}
}

// An answer that is lost may have been the webhook's: the request is not made again.
func TestRequestWithoutAnswerIsNotRepeated(t *testing.T) {
	for name, f := range map[string]delivery{"lost": requestLost, "made": answerLost} {
		t.Run(name, func(t *testing.T) {
			r := newRequestRig(t)
			r.receive(orderEvict("v0", 1))
			r.commitAmend("evict-claim")
			performNext[effect.ReadPod](r, delivered)
			performNext[effect.Evict](r, f)
			r.wait(time.Second)
			r.quiet("it waits")
			r.wantDecisions(events.DecisionEvictBackground)
			r.migrated()
			r.wantDecisions(events.DecisionEvicted)
		})
	}
}

// The answer to a request is lost, and the controller ends the pod before anything else has happened: the eviction that
// was requested is carried out, and the pod that has ended is not evicted.
func TestRequestWithoutAnswerWhosePodEnds(t *testing.T) {
	r := newRequestRig(t)
	r.receive(orderEvict("v0", 1))
	r.commitAmend("evict-claim")
	performNext[effect.ReadPod](r, delivered)
	performNext[effect.Evict](r, answerLost)
	r.api.changePod("v0-uid", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	r.see()
	r.wantDecisions(events.DecisionEvicted)
	for _, e := range r.b.lines {
		if e, is := e.(effect.Evict); is {
			t.Errorf("%+v is to be sent for a pod that has ended as requested", e)
		}
	}
}

// A binder that dies at any moment between the claim and the outcome leaves a claim that the next one continues with.
// Of all of them together one sends the request, at most.
func TestRequestSurvivesBinders(t *testing.T) {
	for steps := range 6 {
		for _, f := range []delivery{delivered, requestLost, answerLost} {
			t.Run(fmt.Sprint(steps, " steps, fate ", f), func(t *testing.T) { newRequestRig(t).dieAfter(steps, f) })
		}
	}
}

// dieAfter has the binder die after so many effects, of which an eviction has the fate f, and the migration take place.
func (r *planRig) dieAfter(steps int, f delivery) {
	r.Helper()
	order := orderEvict("v0", 1)
	order.NotAfter = r.b.now.Add(5 * time.Minute)
	r.receive(order)
	for i := 0; i < steps && len(r.b.lines) > 0; i++ {
		r.performFirst(f)
	}
	r.b.lines = nil // whatever was about to be sent is lost with the process
	r.bootPlans(r.b)
	r.see()
	r.receive(order)
	r.settle(30 * time.Second)
	if n := r.calls["v0-uid"]; n > 1 {
		r.Fatalf("%d evictions were sent", n)
	}
	r.annotated(state.AnnotationEvictionInProgress, "v0")
	r.settle(time.Hour)
	r.migrated()
	r.settle(time.Minute)
	last := r.published[len(r.published)-1]
	if n := r.calls["v0-uid"]; n > 1 || last.Kind != events.DecisionEvicted || last.Token != order.Token {
		r.Errorf("%d evictions were sent, and the last report is %+v", n, last)
	}
	if _, ok := r.victim("v0-uid"); ok {
		r.Error("the claim is still there")
	}
}

// performFirst carries out the first pending effect; an eviction has the fate f.
func (r *planRig) performFirst(f delivery) {
	r.Helper()
	fate := delivered
	if _, is := r.b.lines[0].(effect.Evict); is {
		fate = f
	}
	if err := r.performQuietly(r.b, 0, fate); err != nil {
		r.Fatal(err)
	}
	r.see()
}

// settle carries everything out while time passes.
func (r *planRig) settle(d time.Duration) {
	r.Helper()
	for range 60 {
		for len(r.b.lines) > 0 {
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				r.Fatal(err)
			}
			r.see()
		}
		r.wait(d / 60)
	}
}

// A binder that finds a request whose order has ended, and that no controller has taken on, does not make it again.
func TestRequestOfADeadBinderEnds(t *testing.T) {
	r := newRequestRig(t)
	order := orderEvict("v0", 1)
	order.NotAfter = r.b.now.Add(5 * time.Minute)
	r.requested(order)
	for range 4 { // one binder after the other, each of which lives for less than a request may take
		r.b.lines = nil
		r.bootPlans(r.b)
		r.see()
		r.receive(order)
		r.settle(5 * time.Minute)
	}
	r.settle(r.limits.EvictionHang + time.Minute)
	last := r.published[len(r.published)-1]
	if _, claimed := r.victim("v0-uid"); claimed || last.Kind != events.DecisionEvictRefused || r.calls["v0-uid"] != 1 {
		t.Errorf("claimed %t, %d evictions, the last report is %+v", claimed, r.calls["v0-uid"], last)
	}
}

// A plan waits with its place for a victim that migrates, and one that another client has asked to migrate is not asked
// again.
func TestPlanWaitsForARequest(t *testing.T) {
	for _, before := range []bool{false, true} {
		t.Run(fmt.Sprint("requested before ", before), func(t *testing.T) {
			r := newRequestRig(t)
			if before {
				r.annotated(state.AnnotationEvictionInProgress, "v0")
			}
			plan := r.nominated(0, "v0")
			r.settle(time.Second)
			if !before {
				r.annotated(state.AnnotationEvictionInProgress, "v0")
			}
			if n := r.calls["v0-uid"]; n != map[bool]int{false: 1, true: 0}[before] {
				t.Fatalf("%d evictions were sent", n)
			}
			r.settle(3 * time.Hour)
			if _, _, held := r.truth.Plans().Owner(plan); !held {
				t.Fatal("the place was given up during the migration")
			}
			r.wantDecisions(events.DecisionEvictBackground)
			r.migrated()
			r.settle(time.Second)
			if d := r.wantDecisions(events.DecisionEvicted)[0]; d.Token != r.tokens.String() {
				t.Errorf("reported %+v", d)
			}
		})
	}
}

// Every Eviction says why it is created and for whom; a preemption can be told from an order.
func TestEvictionsAreAccountedFor(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	r.settleUntilEviction("v4", "PreemptionByScheduler: ", "berth.dev/preemption")
	r.receive(func() events.Decision {
		d := orderEvict("v5", 3)
		d.Message = "triggered by default/RemoveDuplicates: "
		return d
	}())
	r.settleUntilEviction("v5", "triggered by default/RemoveDuplicates: ", "sigs.k8s.io/descheduler")
}

// settleUntilEviction carries everything out up to an eviction, whose annotations it checks.
func (r *planRig) settleUntilEviction(pod, reason, by string) {
	r.Helper()
	for range 1000 {
		if len(r.b.lines) == 0 {
			r.wait(100 * time.Millisecond)
			continue
		}
		e, is := r.b.lines[0].(effect.Evict)
		if !is || e.Pod.Name != pod || e.DryRun {
			r.performFirst(delivered)
			continue
		}
		if !strings.HasPrefix(e.Reason, reason) || e.RequestedBy != by {
			r.Fatalf("reason %q, requested by %q, want %q… and %q", e.Reason, e.RequestedBy, reason, by)
		}
		return
	}
	r.Fatal("no eviction of " + pod)
}
