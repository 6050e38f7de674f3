package decide

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// planRig is a world of plans with one binder, for scenarios in single steps.
type planRig struct {
	*testing.T
	*planWorld
	b *member
}

func newPlanRig(t *testing.T, allowed int) *planRig {
	w := newPlanWorld(1, allowed, planLimits())
	r := &planRig{T: t, planWorld: w, b: w.binders[0]}
	r.see()
	return r
}

func (r *planRig) see() {
	r.showPlanFacts(r.b, len(r.api.history)-1)
	for ; r.b.docs < len(r.kv.log); r.b.docs++ {
		r.step(r.b, effect.LedgerChanged{Batch: r.kv.log[r.b.docs]})
	}
}

func (r *planRig) wait(d time.Duration) {
	r.b.now = r.b.now.Add(d)
	r.step(r.b, effect.Tick{})
}

// seen brings all agents up to date.
func (r *planRig) seen() {
	for _, a := range r.agents {
		a.see(len(r.api.history)-1, len(r.kv.log))
	}
}

// performNext carries out the first pending effect of type T, and requires that there is one.
func performNext[T effect.Effect](r *planRig, f delivery) T {
	r.Helper()
	for i, e := range r.b.lines {
		t, ok := e.(T)
		if !ok {
			continue
		}
		if err := r.performQuietly(r.b, i, f); err != nil {
			r.Fatal(err)
		}
		return t
	}
	r.Fatalf("effects to be sent: %s, want a %T", lines(r.b), *new(T))
	panic("unreachable")
}

// answerNext is does with an answer that the API server did not give.
func answerNext[T effect.Effect](r *planRig, a func(e T) effect.Input) T {
	r.Helper()
	for i, e := range r.b.lines {
		if t, ok := e.(T); ok {
			r.b.lines = append(r.b.lines[:i:i], r.b.lines[i+1:]...)
			r.step(r.b, a(t))
			return t
		}
	}
	r.Fatalf("effects to be sent: %s, want a %T", lines(r.b), *new(T))
	panic("unreachable")
}

// commitAmend carries out a transaction, which must have this label.
func (r *planRig) commitAmend(why string) {
	r.Helper()
	if e := performNext[effect.Amend](r, delivered); e.Why != why {
		r.Fatalf("a transaction for %s, want %s", e.Why, why)
	}
}

func (r *planRig) quiet(why string) {
	r.Helper()
	if len(r.b.lines) != 0 {
		r.Fatalf("%s: effects to be sent: %s, want none", why, lines(r.b))
	}
}

// wantDecisions returns the decisions published since the last call, and checks their kinds.
func (r *planRig) wantDecisions(want ...events.DecisionKind) []events.Decision {
	r.Helper()
	all := r.published
	r.published = nil
	var got []events.DecisionKind
	for _, d := range all {
		got = append(got, d.Kind)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.Fatalf("decisions told (-want +got):\n%s", diff)
	}
	return all
}

func (r *planRig) receive(d events.Decision) { r.step(r.b, effect.DecisionSeen{Decision: d}) }

// victim returns the claim on a pod in the ledger.
func (r *planRig) victim(uid string) (ledger.Entry, bool) {
	_, e, ok := r.truth.Plans().Victim(uid)
	return e, ok
}

func TestEvictionWithoutBudgetIsOneCall(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(orderEvict("v4", 1))
	r.commitAmend("evict-claim")
	e := performNext[effect.Evict](r, delivered)
	if e.DryRun || e.Strategy != "RemoveDuplicates" {
		t.Fatalf("eviction %+v", e)
	}
	d := r.wantDecisions(events.DecisionEvicted)[0]
	if d.Token != ledger.Token(1).String() || d.Strategy != "RemoveDuplicates" {
		t.Fatalf("told %+v", d)
	}
	r.see()
	r.receive(orderEvict("v4", 1))
	r.quiet("redelivered")
	r.endPod(4)
	r.see()
	r.wait(2 * time.Second)
	if why := performNext[effect.Amend](r, delivered).Why; why != "hand-over" {
		t.Fatalf("%s, want the hand-over of the claim", why)
	}
	r.see()
	r.wait(r.limits.EvictionMemory + time.Second)
	if s := r.b.core.Stats(); s.Evictions != 0 || s.Removals != 0 {
		t.Fatalf("remembered: %+v", s)
	}
}

// A pod that has ended counts in no budget and takes no room: a claim for it would be dropped like that of a pod
// which has left, and made again, forever. A decision log that is read again contains an earlier order and its
// outcome; the outcome is read while the claim is in flight.
func TestOutcomeThatArrivesBeforeTheClaimIsMade(t *testing.T) {
	for _, kind := range []events.DecisionKind{events.DecisionEvictRefused, events.DecisionEvicted} {
		for _, f := range []delivery{delivered, answerLost} {
			r := newPlanRig(t, 1)
			r.receive(orderEvict("v4", 1))
			ended := orderEvict("v4", 1)
			ended.Kind = kind
			r.receive(ended)
			if e := performNext[effect.Amend](r, f); e.Why != "evict-claim" {
				t.Fatalf("a transaction for %s", e.Why)
			}
			r.wantNoEviction(20)
			if claim, ok := r.victim("v4-uid"); ok {
				t.Errorf("the claim is left: %+v", claim)
			}
			r.wantDecisions()
		}
	}
}

// wantNoEviction carries out everything for some seconds, and requires that there is no eviction.
func (r *planRig) wantNoEviction(seconds int) {
	r.Helper()
	for range seconds {
		for len(r.b.lines) > 0 {
			if e, is := r.b.lines[0].(effect.Evict); is {
				r.Fatalf("%+v, whose outcome is known", e)
			}
			if err := r.performQuietly(r.b, 0, delivered); err != nil {
				r.Fatal(err)
			}
		}
		r.see()
		r.wait(time.Second)
	}
}

func TestEndedPodIsEvictedWithoutAClaim(t *testing.T) {
	for _, result := range []effect.Result{effect.Done, effect.Gone, effect.Throttled, effect.Unknown} {
		r := newPlanRig(t, 0)
		r.api.changePod("v0-uid", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })
		r.see()
		r.receive(orderEvict("v0", 1))
		if _, claimed := r.victim("v0-uid"); claimed {
			t.Fatal("it is claimed")
		}
		if result == effect.Done {
			performNext[effect.Evict](r, delivered)
		} else {
			answerNext(r, func(e effect.Evict) effect.Input { return effect.Answered{Op: e.Op, Result: result, Problem: "no"} })
		}
		switch result {
		case effect.Throttled:
			r.wantDecisions(events.DecisionEvictRefused)
		case effect.Unknown:
			r.wait(r.limits.Retry.Duration)
			performNext[effect.Evict](r, delivered)
			r.wantDecisions(events.DecisionEvicted)
		default:
			r.wantDecisions(events.DecisionEvicted)
		}
		r.quiet("told")
	}
}

func TestEvictionUnderABudgetClaimsReadsAndTriesFirst(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(orderEvict("v0", 1))
	r.commitAmend("evict-claim")
	if !r.truth.Budgets().Of(pdbUID).Claimed("v0-uid") {
		t.Fatal("nothing is claimed from the budget")
	}
	performNext[effect.ReadPod](r, delivered)
	if !performNext[effect.Evict](r, delivered).DryRun {
		t.Fatal("no dry run")
	}
	if performNext[effect.Evict](r, delivered).DryRun {
		t.Fatal("two dry runs")
	}
	r.wantDecisions(events.DecisionEvicted)
	r.see()
	// The budget allows one: another eviction is not tried, and a preemption's claim is not made.
	r.receive(orderEvict("v1", 2))
	r.quiet("no room")
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "budget") {
		t.Fatalf("told %q", d.Message)
	}
}

// Edge case 8: the API server always answers 500.
func TestEvictionUnderTwoBudgetsIsNotTried(t *testing.T) {
	r := newPlanRig(t, 1)
	r.api.changePod("v4-uid", func(p *corev1.Pod) { p.Labels = map[string]string{"budgets": "2"} })
	r.see()
	r.receive(orderEvict("v4", 1))
	r.quiet("two budgets")
	r.wantDecisions(events.DecisionEvictRefused)
}

func TestEvictionOfAPodOfAPlanIsRefused(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	r.b.lines = nil
	r.receive(orderEvict("v4", 77))
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "victim of plan") {
		t.Fatalf("told %q", d.Message)
	}
}

// Unknown is not failed: the pod is read, and evicted again; its claim stays until then.
func TestEvictionWithoutAnswerIsLookedUpAndSentAgain(t *testing.T) {
	for name, f := range map[string]delivery{"lost": requestLost, "carried out": answerLost} {
		t.Run(name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			r.receive(orderEvict("v4", 1))
			r.commitAmend("evict-claim")
			performNext[effect.Evict](r, f)
			r.quiet("no answer")
			r.wait(time.Second)
			performNext[effect.ReadPod](r, delivered)
			if f == requestLost {
				performNext[effect.Evict](r, delivered)
			}
			r.see()
			r.wantDecisions(events.DecisionEvicted)
			if e, ok := r.victim("v4-uid"); !ok || e.State != ledger.Evicting {
				t.Fatalf("the claim is %s (%v) while the pod leaves", e.State, ok)
			}
			r.quiet("it leaves")
		})
	}
}

// Edge case 7: a failed call may have spent from the budget, and is not repeated.
func TestEdge07RefusedEvictionIsNotRepeated(t *testing.T) {
	r := newPlanRig(t, 1)
	ask := orderEvict("v0", 5)
	r.receive(ask)
	r.commitAmend("evict-claim")
	performNext[effect.ReadPod](r, delivered)
	dry := answerNext(r, func(e effect.Evict) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Throttled, Problem: "would violate the budget"}
	})
	if !dry.DryRun {
		t.Fatal("a pod that a budget covers was evicted without a dry run")
	}
	r.wait(time.Second)
	r.commitAmend("evict-failed")
	if d := r.wantDecisions(events.DecisionEvictRefused)[0]; !strings.Contains(d.Message, "would violate the budget") {
		t.Fatalf("told %q", d.Message)
	}
	r.see()
	r.receive(ask) // redelivered
	r.wait(2 * time.Second)
	r.commitAmend("sweep")
	if _, ok := r.victim("v0-uid"); ok || r.truth.Budgets().Of(pdbUID).Claimed("v0-uid") {
		t.Fatal("the claim of an eviction that failed is still there")
	}
	r.wait(time.Minute)
	r.quiet("refused once and for all")
}

// Edge case 10: between the claim and the eviction the pod is replaced by one of the same name. A call with the wrong
// UID would spend from the budget.
func TestEdge10NamesakeIsNotEvicted(t *testing.T) {
	r := newPlanRig(t, 1)
	r.receive(orderEvict("v0", 6))
	r.commitAmend("evict-claim")
	r.api.deletePod("v0-uid")
	performNext[effect.ReadPod](r, delivered) // gone, because the UID is
	r.quiet("the pod is another one")
	r.see()
	r.wantDecisions(events.DecisionEvicted)
	if r.api.now().budget.allowed != 1 {
		t.Fatal("the budget was spent on a pod that is gone")
	}
}

func TestEvictionsAreNotForgottenWithTheirPartition(t *testing.T) {
	r := newPlanRig(t, 1)
	r.hold(r.b, false)
	r.receive(orderEvict("v4", 1))
	r.quiet("another binder's")
	r.hold(r.b, true)
	r.commitAmend("evict-claim")
}

// nominated makes a plan of pod i on its node with these victims (T2), and shows it.
func (r *planRig) nominated(i int, victims ...string) string {
	r.Helper()
	r.seen()
	a := r.agents[i]
	e, ok := r.reservation(a, i, int32(10+i))
	if !ok {
		r.Fatalf("p%d has a place", i)
	}
	n := txns.Nomination{
		Authority: r.authority(e.PodUID), Hold: txns.NodeEntry{NodeUID: "n0-uid", Entry: e}, Docs: a.docs(),
		Budgets: a.rooms(), Facts: a,
	}
	for _, name := range victims {
		var at int
		if _, err := fmt.Sscanf(name, "v%d", &at); err != nil {
			r.Fatal(err)
		}
		v, ok := a.victim(at)
		if !ok {
			r.Fatalf("%s is no victim", name)
		}
		n.Victims = append(n.Victims, v)
	}
	c, err := txns.Nominate(n)
	if err != nil {
		r.Fatal(err)
	}
	txn, err := c.Txn()
	if err != nil {
		r.Fatal(err)
	}
	if res, err := r.commit(txn); err != nil || !res.Succeeded {
		r.Fatalf("T2: %v %v", res.Succeeded, err)
	}
	r.see()
	return n.Plan()
}

// Evictions of the descheduler are reported as upstream reports its own: those that were carried out, and those that
// failed if the policy asks for it. A pod that left by itself is not reported.
func TestEvictionsAreReported(t *testing.T) {
	for _, tt := range []struct {
		name           string
		eventOnFailure bool
		result         effect.Result
		want           []effect.Report
	}{
		{"done", true, effect.Done, []effect.Report{{
			Pod: about("v4"), SchedulerName: "sigs.k8s.io.descheduler", Type: "Normal", Reason: "RemoveDuplicates",
			Action: "Descheduled", Note: "pod eviction from n1 node by berth descheduler, triggered by p/RemoveDuplicates: why",
		}}},
		{"failed, and nobody wants to know", false, effect.Throttled, nil},
		{"failed", true, effect.Throttled, []effect.Report{{
			Pod: about("v4"), SchedulerName: "sigs.k8s.io.descheduler", Type: "Warning", Reason: "EvictionFailed",
			Action: "Descheduled", Note: "pod eviction from n1 node by berth descheduler failed: no",
		}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newPlanRig(t, 1)
			d := orderEvict("v4", 1)
			d.NodeName, d.Message, d.EventOnFailure = "n1", "triggered by p/RemoveDuplicates: why", tt.eventOnFailure
			r.receive(d)
			r.commitAmend("evict-claim")
			if tt.result == effect.Done {
				performNext[effect.Evict](r, delivered)
			} else {
				answerNext(r, func(e effect.Evict) effect.Input {
					return effect.Answered{Op: e.Op, Result: tt.result, Problem: "no"}
				})
				r.see()
				r.wait(r.limits.Retry.Duration)
				for range 3 {
					if len(r.b.lines) == 0 {
						break
					}
					if err := r.performQuietly(r.b, 0, delivered); err != nil {
						t.Fatal(err)
					}
					r.see()
				}
			}
			r.receive(d)
			if diff := cmp.Diff(tt.want, r.reported); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	r := newPlanRig(t, 1)
	d := orderEvict("gone", 1)
	d.EventOnFailure = true
	r.receive(d)
	if r.wantDecisions(events.DecisionEvicted); len(r.reported) > 0 {
		t.Errorf("a pod that had gone is told of: %+v", r.reported)
	}
}

// deliver carries out what is pending, until something is reported.
func (r *planRig) deliver() {
	r.Helper()
	for len(r.b.lines) > 0 && len(r.reported) == 0 {
		if err := r.performQuietly(r.b, 0, delivered); err != nil {
			r.Fatal(err)
		}
	}
}

// The facts are faster than the answer: the pod is seen leaving before the API server has confirmed the eviction. It
// does not count as a pod that left by itself.
func TestEvictionWhosePodGoesBeforeTheAnswer(t *testing.T) {
	for _, result := range []effect.Result{effect.Done, effect.Gone, effect.Unknown} {
		r := newPlanRig(t, 1)
		r.receive(orderEvict("v4", 1))
		r.commitAmend("evict-claim")
		answerNext(r, func(e effect.Evict) effect.Input {
			r.api.deletePod("v4-uid")
			r.see()
			if len(r.reported) > 0 {
				t.Fatalf("reported before the answer: %+v", r.reported)
			}
			return effect.Answered{Op: e.Op, Result: result}
		})
		for range 5 {
			r.see()
			r.wait(time.Second)
			r.deliver()
		}
		if len(r.reported) != 1 || r.reported[0].Type != "Normal" {
			t.Errorf("after %v: events %+v, want that of the eviction", result, r.reported)
		}
		if d := r.wantDecisions(events.DecisionEvicted)[0]; d.Message != "" {
			t.Errorf("after %v: told %+v, want it as carried out", result, d)
		}
	}
}

// marked returns a binder that has marked v4 and is about to evict it.
func marked(t *testing.T) *planRig {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	r.commitAmend("evict-mark")
	return r
}

// abandonMark does what other members do with a mark whose binder does not continue: one takes it over, fails, and the
// plan is aborted.
func (r *planRig) abandonMark(plan string) {
	r.Helper()
	doc, _ := r.truth.Doc("n0-uid")
	for _, step := range []func(ledger.NodeDoc) (ledger.NodeDoc, error){
		func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			return txns.TakeEviction(d, "v4-uid", plan, "another")
		},
		func(d ledger.NodeDoc) (ledger.NodeDoc, error) { return txns.FailEviction(d, "v4-uid", plan) },
	} {
		next, err := step(doc)
		if err != nil {
			r.Fatal(err)
		}
		r.changed(txns.Change{Docs: []ledger.NodeDoc{next}})
		doc, _ = r.truth.Doc("n0-uid")
	}
	abort, err := txns.AbortPlan(txns.Abort{Plan: plan, Docs: r.truth.Plans().Docs(plan)})
	if err != nil {
		r.Fatal(err)
	}
	r.changed(abort)
}

// changed commits another member's change.
func (r *planRig) changed(c txns.Change) {
	r.Helper()
	txn, err := c.Txn()
	if err != nil {
		r.Fatal(err)
	}
	if res, err := r.commit(txn); err != nil || !res.Succeeded {
		r.Fatalf("%+v, %v", res, err)
	}
}

// A binder is cut off from the ledger, and its evictions get no answer. Another binder takes its mark over, waits
// until nothing can be in flight any more, and gives the claim back. When the API server answers the first binder
// again, the ledger does not yet: the binder must not evict.
func TestBinderCutOffFromTheLedgerBeginsNoEviction(t *testing.T) {
	r := marked(t)
	claim, _ := r.victim("v4-uid")
	sent := 0
	lose := func() {
		for len(r.b.lines) > 0 {
			if e, ok := r.b.lines[0].(effect.Evict); ok && !e.DryRun {
				sent++
			}
			in := unknownPlan(r.b.lines[0])
			r.b.lines = r.b.lines[1:]
			r.step(r.b, in)
		}
	}
	lose()
	marked := r.b.now
	for r.b.now.Sub(marked) < defaults.EvictionHang {
		r.wait(time.Second)
		lose()
	}
	if sent == 0 {
		t.Fatal("the mark was followed by no eviction")
	}
	r.abandonMark(claim.Plan)
	sent = 0
	for range 10 {
		r.wait(10 * time.Second)
		for len(r.b.lines) > 0 {
			if _, ok := r.b.lines[0].(effect.ReadPod); ok {
				performNext[effect.ReadPod](r, delivered)
				continue
			}
			in := unknownPlan(r.b.lines[0])
			if e, ok := r.b.lines[0].(effect.Evict); ok && !e.DryRun {
				t.Fatalf("%s after its mark, %s is evicted, which nobody claims any more", r.b.now.Sub(marked), e.Pod.UID)
			}
			r.b.lines = r.b.lines[1:]
			r.step(r.b, in)
		}
	}
	r.see()
	for _, e := range r.b.lines {
		if e, ok := e.(effect.Evict); ok {
			t.Errorf("%+v for a claim that was given back", e)
		}
	}
}

// The ledger is reachable again, and the watch first shows an earlier state: the binder reads the claim before it
// believes it.
func TestWatchThatIsBehindVouchesForNoClaim(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	performNext[effect.Amend](r, answerLost) // the mark
	claim, _ := r.victim("v4-uid")
	shown := len(r.kv.log)
	r.abandonMark(claim.Plan)
	r.b.now = r.b.now.Add(2 * defaults.EvictionHang)
	for ; r.b.docs < shown; r.b.docs++ {
		r.step(r.b, effect.LedgerChanged{Batch: r.kv.log[r.b.docs]})
	}
	for range 3 {
		r.wait(10 * time.Second)
		performNext[effect.ReadDoc](r, delivered) // of a revision that the view does not have
		r.quiet("the picture is behind what was read")
	}
	r.see()
	r.wait(10 * time.Second)
	for _, e := range r.b.lines {
		if e, ok := e.(effect.Evict); ok {
			t.Errorf("%+v for a claim that was given back", e)
		}
	}
}

// The watch often shows a mark before its answer arrives. That costs no read.
func TestMarkThatIsSeenBeforeItsAnswer(t *testing.T) {
	r := newPlanRig(t, 1)
	r.nominated(0, "v4")
	performNext[effect.Nominate](r, delivered)
	r.see()
	mark := next[effect.Amend](&rig{T: t, world: r.world, b: r.b})
	r.b.lines = nil
	in, err := r.carryOutPlan(mark)
	if err != nil {
		t.Fatal(err)
	}
	r.see()
	r.quiet("the answer is on its way")
	r.step(r.b, in)
	performNext[effect.Evict](r, delivered)
}

// A budget refuses for long, and nothing changes in the ledger in that time. The claim is read once in that time, and
// the eviction keeps being tried.
func TestEvictionThatIsRefusedForLongReadsItsClaim(t *testing.T) {
	r := marked(t)
	r.b.core.base.Limits.EvictionTries = 1000
	reads, sent, begin := 0, 0, r.b.now
	for r.b.now.Sub(begin) < 3*defaults.EvictWithin {
		for len(r.b.lines) > 0 {
			switch r.b.lines[0].(type) {
			case effect.ReadDoc:
				reads++
				performNext[effect.ReadDoc](r, delivered)
			case effect.ReadPod:
				performNext[effect.ReadPod](r, delivered)
			default:
				sent++
				answerNext(r, func(e effect.Evict) effect.Input {
					return effect.Answered{Op: e.Op, Result: effect.Throttled, Problem: "no budget"}
				})
			}
		}
		r.wait(time.Second)
	}
	if reads != 2 || sent < 40 {
		t.Errorf("%d reads of the claim and %d evictions in %s, want 2 and one or so a second",
			reads, sent, 3*defaults.EvictWithin)
	}
}

// An eviction that waits long for a worker is not begun without another check.
func TestEvictionThatWaitedIsMoot(t *testing.T) {
	r := marked(t)
	e := next[effect.Evict](&rig{T: t, world: r.world, b: r.b})
	if _, moot := r.b.core.Moot(e); moot {
		t.Fatal("moot at once")
	}
	r.wait(defaults.EvictWithin + time.Second)
	op, moot := r.b.core.Moot(e)
	if !moot || op != e.Op {
		t.Fatalf("moot %t as %d, want it to be as %d", moot, op, e.Op)
	}
	r.b.lines = nil
	r.step(r.b, effect.NotStarted{Op: op})
	r.wait(time.Second)
	performNext[effect.ReadPod](r, delivered)
	performNext[effect.ReadDoc](r, delivered)
	again := performNext[effect.Evict](r, delivered)
	if again.DryRun {
		t.Fatalf("%+v", again)
	}
	r.wantDecisions(events.DecisionEvicted)
}
