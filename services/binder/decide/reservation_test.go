package decide

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/statetest"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func TestBindCarriesItsPreconditionsAndIsReported(t *testing.T) {
	r := newRig(t, 1)
	e := r.reserve()
	bind := run[effect.Bind](r, delivered)
	want := effect.Bind{
		Op: bind.Op, Pod: about("p0"), NodeUID: "n0-uid", NodeName: "n0", ResourceVersion: e.PodRV,
		Token: e.Token, SchedulerName: "berth",
	}
	if diff := cmp.Diff(want, bind); diff != "" {
		t.Fatalf("bind (-want +got):\n%s", diff)
	}
	d := r.wantDecisions(events.DecisionBound)[0]
	if d.Token != e.Token.String() || d.NodeName != "n0" || d.Actor != r.b.id {
		t.Fatalf("told: %+v", d)
	}
	report := effect.Report{
		Pod: about("p0"), SchedulerName: "berth", Type: "Normal", Reason: "Scheduled", Action: "Binding",
		Note: "Successfully assigned ns/p0 to n0", Once: true,
	}
	if diff := cmp.Diff([]effect.Report{report}, r.reported); diff != "" {
		t.Fatalf("reported (-want +got):\n%s", diff)
	}
	r.quiet("bound")
	r.wait(time.Hour)
	r.quiet("bound long ago, facts silent: known to be bound, no fence")
}

// The event of a bind names the pod's controller, by which it may be counted.
func TestEventOfABindNamesTheWorkload(t *testing.T) {
	yes := true
	owner := metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "other", UID: "other-uid"}
	controller := metav1.OwnerReference{APIVersion: "batch/v1", Kind: "Job", Name: "j", UID: "j-uid", Controller: &yes}
	for name, c := range map[string]struct {
		owners []metav1.OwnerReference
		want   *metav1.OwnerReference
	}{
		"no owner": {}, "an owner": {owners: []metav1.OwnerReference{owner}},
		"a controller": {[]metav1.OwnerReference{owner, controller}, &controller},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			r.api.write(func(v *apiVersion) {
				v.pods["p0-uid"] = state.NewPod(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{
					Namespace: "ns", Name: "p0", UID: "p0-uid", Generation: 1, OwnerReferences: c.owners,
					ResourceVersion: strconv.FormatUint(v.rv, 10),
				}})
			})
			r.see()
			r.reserve()
			run[effect.Bind](r, delivered)
			if diff := cmp.Diff(c.want, r.reported[0].Workload); diff != "" || len(r.reported) != 1 {
				t.Errorf("%d events; workload (-want +got):\n%s", len(r.reported), diff)
			}
		})
	}
}

func TestHintAloneBindsNothing(t *testing.T) {
	r := newRig(t, 1)
	hint := events.Decision{Kind: events.DecisionPlaced, Pod: about("p0"), Token: ledger.Token(1).String(),
		NodeUID: "n0-uid", NodeName: "n0", LedgerRevision: 1, FactSequence: 3, Attempt: 7, TraceParent: "00-trace"}
	r.receive(hint)
	r.quiet("the ledger view does not show the entry")
	other := hint
	other.Token = ledger.Token(2).String()
	r.receive(other)
	r.reserve()
	if bind := next[effect.Bind](r); bind.Token != 1 || bind.Attempt != 7 || bind.TraceParent != "00-trace" {
		t.Fatalf("bind: %+v, want that of the hint with the entry's token", bind)
	}
	r.receive(hint)
	next[effect.Bind](r)
	r.wait(time.Minute)
	if s := r.b.core.Stats(); s.Hints != 0 {
		t.Fatalf("%d hints remembered past their revision", s.Hints)
	}
}

func TestNothingIsDoneForPartitionsOfOthers(t *testing.T) {
	r := newRig(t, 1)
	r.hold(r.b, false)
	r.reserve()
	r.wait(time.Minute)
	r.quiet("not ours")
	r.hold(r.b, true)
	next[effect.Transact](r) // idle beyond the deadline: its binder was gone
}

func TestTakeOverBindsAtOnce(t *testing.T) {
	r := newRig(t, 1)
	r.hold(r.b, false)
	r.reserve()
	r.quiet("not ours")
	r.hold(r.b, true)
	next[effect.Bind](r)
}

func TestDrainStartsNothingButReportsWhatEnds(t *testing.T) {
	r := newRig(t, 2)
	r.reserve()
	r.step(r.b, effect.Drain{})
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
	r.wait(time.Hour)
	r.quiet("draining")
}

func TestUnknownBindIsRepeatedUnchangedThenFenced(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	first := run[effect.Bind](r, requestLost)
	r.quiet("pause before the next try")
	r.wait(200 * time.Millisecond)
	second := run[effect.Bind](r, requestLost)
	first.Op = second.Op
	if diff := cmp.Diff(first, second); diff != "" {
		t.Fatalf("second try (-first +second):\n%s", diff)
	}
	r.wait(r.limits.BindDeadline)
	r.expectFence("not bound within")
	if found := r.eventsOf("FailedScheduling"); len(found) > 0 {
		t.Errorf("events %+v, want none: the API server does not answer", found)
	}
}

func TestUnknownBindThatHappenedIsFoundAndReported(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	run[effect.Bind](r, answerLost)
	r.wantDecisions()
	r.wait(200 * time.Millisecond)
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
	if len(r.reported) != 1 {
		t.Fatalf("%d events, want one", len(r.reported))
	}
}

func TestBindOfAnotherBinderIsNotReportedTwice(t *testing.T) {
	r := newRig(t, 1)
	e := r.reserve()
	r.api.bind(effect.Bind{Pod: about("p0"), NodeName: "n0", ResourceVersion: e.PodRV, Token: e.Token})
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
	if len(r.reported) != 0 {
		t.Fatalf("reported %+v, which the other binder has done", r.reported)
	}
}

func TestForeignBindToTheSameNodeIsNotOurs(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n0" })
	run[effect.Bind](r, delivered)
	r.wantDecisions()
	r.quiet("bound by somebody else")
}

func TestRefusedBindIsFenced(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "forbidden"}
	})
	r.expectFence("bind refused: forbidden")
}

func TestRecheckBeforeTheBind(t *testing.T) {
	taint := func(e corev1.TaintEffect) func(n *corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: e}} }
	}
	tolerate := func(p *corev1.Pod) {
		p.Generation++
		p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	}
	for _, tc := range []struct {
		name  string
		node  func(n *corev1.Node)
		pod   func(p *corev1.Pod)
		fence string
	}{
		{"cordoned", func(n *corev1.Node) { n.Spec.Unschedulable = true }, nil, "cordoned"},
		{"cordoned, tolerated", func(n *corev1.Node) { n.Spec.Unschedulable = true }, tolerate, ""},
		{"tainted NoExecute", taint(corev1.TaintEffectNoExecute), nil, "untolerated taint"},
		{"tainted NoSchedule", taint(corev1.TaintEffectNoSchedule), nil, "untolerated taint"},
		{"tainted NoExecute, tolerated", taint(corev1.TaintEffectNoExecute), tolerate, ""},
		{"tainted PreferNoSchedule", taint(corev1.TaintEffectPreferNoSchedule), nil, ""},
		{"room taken by others", func(n *corev1.Node) {
			n.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}
		}, nil, "no room left: pods: 0 in use, 1 requested, 0 allocatable"},
		{"pod being deleted", nil, func(p *corev1.Pod) {
			now := metav1.Now()
			p.DeletionTimestamp = &now
		}, "being deleted"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.hold(r.b, false)
			if tc.pod != nil && tc.fence == "" {
				r.api.changePod("p0-uid", tc.pod)
			}
			r.reserve()
			if tc.pod != nil && tc.fence != "" {
				r.api.changePod("p0-uid", tc.pod)
			}
			if tc.node != nil {
				r.api.changeNode("n0-uid", tc.node)
			}
			r.see()
			r.hold(r.b, true)
			if tc.fence == "" {
				run[effect.Bind](r, delivered)
				r.wantDecisions(events.DecisionBound)
				return
			}
			r.expectFence(tc.fence)
		})
	}
}

// The comparison operators of tolerations count as they do in the shards' rule: else the binder would take such a
// decision back forever.
func TestRecheckComparesNumbers(t *testing.T) {
	for _, tc := range statetest.NumericTolerations() {
		t.Run(tc.Name, func(t *testing.T) {
			r := newRig(t, 1)
			r.hold(r.b, false)
			r.api.changePod("p0-uid", func(p *corev1.Pod) {
				p.Generation++
				p.Spec.Tolerations = []corev1.Toleration{tc.Toleration}
			})
			r.reserve()
			r.api.changeNode("n0-uid", func(n *corev1.Node) { n.Spec.Taints = []corev1.Taint{tc.Taint} })
			r.see()
			r.hold(r.b, true)
			if !tc.Tolerated {
				r.expectFence("untolerated taint")
				return
			}
			run[effect.Bind](r, delivered)
			r.wantDecisions(events.DecisionBound)
		})
	}
}

// A rule that the pod's profile does not have must not take its decisions back.
func TestRecheckAsksOnlyTheProfilesRules(t *testing.T) {
	w := newWorld(1, 1, 1, ablation{})
	r := &rig{T: t, world: w, b: w.binders[0]}
	r.b.core.base.Enforces = func(string, string) bool { return false }
	r.see()
	r.api.changeNode("n0-uid", func(n *corev1.Node) {
		n.Spec.Unschedulable = true
		n.Spec.Taints = []corev1.Taint{{Key: "k", Effect: corev1.TaintEffectNoSchedule}}
		n.Status.Allocatable = nil
	})
	r.see()
	r.reserve()
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
}

func TestNodeThatIsGone(t *testing.T) {
	r := newRig(t, 1)
	r.hold(r.b, false)
	r.reserve()
	r.api.write(func(v *apiVersion) { delete(v.nodes, "n0-uid") })
	r.see()
	r.hold(r.b, true)
	r.quiet("without a hint the node may be newer than our facts")
	r.receive(events.Decision{
		Kind: events.DecisionPlaced, Pod: about("p0"), Token: ledger.Token(1).String(), FactSequence: 2,
	})
	r.expectFence("is gone")
}

func TestFactsBehindTheDecisionAreWaitedFor(t *testing.T) {
	w := newWorld(1, 1, 1, ablation{})
	r := &rig{T: t, world: w, b: w.binders[0]} // has seen no facts
	r.reserve()
	r.quiet("pod and node do not show yet")
	r.see()
	next[effect.Bind](r)
}

func TestDeletedOrBoundPodNeedsNothing(t *testing.T) {
	r := newRig(t, 1)
	r.hold(r.b, false)
	r.reserve()
	r.api.deletePod("p0-uid")
	r.see()
	r.hold(r.b, true)
	r.quiet("deleted")
	r.wait(2 * time.Second)
	hand := run[effect.Amend](r, delivered)
	if hand.Why != "hand-over" || r.doc().HW[ledger.KindPod] != r.api.now().rv {
		t.Fatalf("%s, high-water %v, want a hand-over at %d", hand.Why, r.doc().HW, r.api.now().rv)
	}
}

func TestRefreshOnlyForTheSameRequest(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(p *corev1.Pod)
		fence  string
	}{
		{"annotation", annotate("a", "b"), ""},
		{"labels", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }, "spec or labels changed"},
		{"spec", func(p *corev1.Pod) { p.Generation++ }, "spec or labels changed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.reserve()
			changed := r.api.changePod("p0-uid", tc.change)
			run[effect.Bind](r, delivered)
			run[effect.ReadDoc](r, delivered)
			if tc.fence != "" {
				r.expectFence(tc.fence)
				return
			}
			if bind := run[effect.Bind](r, delivered); bind.ResourceVersion != changed.ResourceVersion {
				t.Fatalf("second bind at %d, want %d", bind.ResourceVersion, changed.ResourceVersion)
			}
			r.wantDecisions(events.DecisionBound)
		})
	}
}

func TestRefreshFindsTheVersionOfTheDecisionBehindNewerFacts(t *testing.T) {
	r := newRig(t, 1)
	r.noWish = true
	r.hold(r.b, false)
	r.reserve()
	r.api.changePod("p0-uid", annotate("a", "1"))
	r.api.changePod("p0-uid", annotate("a", "2"))
	r.see()
	r.hold(r.b, true)
	run[effect.Bind](r, delivered)
	run[effect.ReadDoc](r, delivered)
	next[effect.Bind](r)
}

func TestRefreshWithoutTheVersionOfTheDecision(t *testing.T) {
	for _, tc := range []struct {
		name   string
		noWish bool
		change func(p *corev1.Pod)
		fence  string
	}{
		{"asks for the same", false, annotate("a", "1"), ""},
		{"asks for something else", false, func(p *corev1.Pod) { p.Generation++ }, "spec or labels changed"},
		{"nobody knows", true, annotate("a", "1"), "not at hand"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.noWish = tc.noWish
			r.reserve()
			r.b.lines = nil
			r.api.changePod("p0-uid", tc.change)
			r.boot(r.b) // its facts begin after the decision's version
			r.b.core.base.Facts.Cluster = r.api.now()
			run[effect.Bind](r, delivered)
			run[effect.ReadDoc](r, delivered)
			if tc.fence == "" {
				run[effect.Bind](r, delivered)
				r.wantDecisions(events.DecisionBound)
				return
			}
			r.expectFence(tc.fence)
		})
	}
}

// The shard promotes when its facts show the victims gone. In the binder's facts they may still be there: a fence
// would give away a place for which pods were evicted.
func TestObjectionsOfOldFactsAreWaitedOut(t *testing.T) {
	cordon := func(yes bool) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Unschedulable = yes }
	}
	for _, kind := range []string{ledger.KindPod, ledger.KindNode} {
		r := newRig(t, 1)
		r.hold(r.b, false)
		r.reserve()
		r.api.changeNode("n0-uid", cordon(true))
		r.see()
		d := r.doc()
		d.Revision, d.HW = d.Revision+1, map[string]uint64{kind: r.api.now().rv + 1}
		r.step(r.b, docsMoved(d))
		r.hold(r.b, true)
		r.quiet("the facts are older than the " + kind + " high-water")
		r.api.changeNode("n0-uid", cordon(false))
		r.see()
		next[effect.Bind](r)
	}
}

// The ledger delivers a reservation before the facts show the pod as the shard saw it: its gates are still there, its
// new tolerations are not.
func TestObjectionsToAnOlderPodAreWaitedOut(t *testing.T) {
	repel := func(n *corev1.Node) {
		n.Spec.Taints = []corev1.Taint{{Key: "reserved", Effect: corev1.TaintEffectNoSchedule}}
	}
	for _, tc := range []struct {
		name          string
		node          func(*corev1.Node)
		before, after func(*corev1.Pod)
	}{
		{
			"gates", func(*corev1.Node) {},
			func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "wait"}} },
			func(p *corev1.Pod) { p.Spec.SchedulingGates = nil },
		},
		{
			"tolerations", repel, func(*corev1.Pod) {},
			func(p *corev1.Pod) { p.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}} },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, 1)
			r.api.changeNode("n0-uid", tc.node)
			r.api.changePod("p0-uid", newSpec(tc.before))
			r.see()
			decided := r.api.changePod("p0-uid", newSpec(tc.after))
			r.reserve()
			r.quiet("the facts show the pod as it was before the decision")
			r.see()
			if bind := next[effect.Bind](r); bind.ResourceVersion != decided.ResourceVersion {
				t.Fatalf("bound at %d, want %d", bind.ResourceVersion, decided.ResourceVersion)
			}
		})
	}
}

func newSpec(change func(*corev1.Pod)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Generation++
		change(p)
	}
}

func TestPromotedPodIsBoundAsItWasLookedAt(t *testing.T) {
	r := newRig(t, 1)
	r.hold(r.b, false)
	e := r.reserve()
	for i, state := range []ledger.State{ledger.Held, ledger.Committed} {
		looked := r.api.changePod("p0-uid", annotate("looked", string(rune('a'+i))))
		r.showFacts(r.b, len(r.api.history)-1)
		d := r.doc()
		d.Revision += int64(state)
		e.State, e.PodRV = state, looked.ResourceVersion
		d.Entries = []ledger.Entry{e}
		r.step(r.b, docsMoved(d))
	}
	r.hold(r.b, true)
	if bind := next[effect.Bind](r); bind.ResourceVersion != e.PodRV {
		t.Fatalf("bound at %d, want %d", bind.ResourceVersion, e.PodRV)
	}
}

func TestThreeLossesAreAFence(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	for i := range 3 {
		r.api.changePod("p0-uid", annotate("a", string(rune('a'+i))))
		run[effect.Bind](r, delivered)
		if i < 2 {
			run[effect.ReadDoc](r, delivered)
		}
	}
	r.expectFence("changed 3 times")
}

func TestWantedEntryIsFinishedOrFencedWithoutAnotherTry(t *testing.T) {
	r := newRig(t, 1)
	e := r.reserve()
	wanted, _, err := txns.MarkWanted(r.doc(), e.PodUID, e.Token)
	if err != nil || !r.replace(wanted) {
		t.Fatal("not marked", err)
	}
	r.see()
	run[effect.Bind](r, requestLost)
	r.expectFence("wanted back")
}

func TestFenceThatFindsThePodBound(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	run[effect.Bind](r, requestLate)
	r.wait(r.limits.BindDeadline + time.Second)
	run[effect.Transact](r, delivered)
	if err := r.performLate(0); err != nil {
		t.Fatal(err)
	}
	run[effect.FencePod](r, delivered)
	run[effect.Transact](r, delivered)
	r.wantDecisions(events.DecisionBound)
	if hw := r.doc().HW[ledger.KindPod]; hw < r.api.now().pods["p0-uid"].ResourceVersion {
		t.Fatalf("high-water %d does not cover the bind", hw)
	}
}

func TestFenceOfAGonePodWaitsForTheFact(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	run[effect.Bind](r, requestLost)
	r.wait(r.limits.BindDeadline + time.Second)
	run[effect.Transact](r, delivered)
	r.api.deletePod("p0-uid")
	run[effect.FencePod](r, delivered)
	r.wait(2 * time.Second)
	r.quiet("no release without the fact")
	r.see()
	r.wait(2 * time.Second)
	if hand := run[effect.Amend](r, delivered); hand.Why != "hand-over" || len(r.doc().Entries) != 0 {
		t.Fatalf("%s left %d entries", hand.Why, len(r.doc().Entries))
	}
}

func TestForeignFenceIsRedoneOnlyWhenIdle(t *testing.T) {
	r := newRig(t, 1)
	e := r.reserve()
	run[effect.Bind](r, requestLost)
	marked, err := txns.MarkFencing(r.doc(), e.PodUID, e.Token, ledger.FenceByPod)
	if err != nil || !r.replace(marked) {
		t.Fatal("not marked", err)
	}
	r.see()
	r.wait(r.limits.Idle)
	r.quiet("another binder is at it")
	r.wait(r.limits.Idle)
	run[effect.FencePod](r, delivered)
	run[effect.Transact](r, delivered)
	r.wantDecisions(events.DecisionReleased)
}

// promiseVolumes adds to the reservation that claim c must get a volume.
func (r *rig) promiseVolumes() {
	r.Helper()
	d := r.doc()
	d.Entries = slices.Clone(d.Entries)
	for i := range d.Entries {
		d.Entries[i].Volumes = []ledger.VolumePick{{Claim: "c"}}
	}
	if !r.replace(d) {
		r.Fatal("the volumes are not in the ledger")
	}
	r.showDocs(r.b, len(r.ledger.history))
}

// A pod waits longer for its volumes than for its bind, and its reservation is taken back when they do not come.
func TestVolumesAreWaitedFor(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	r.promiseVolumes()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "no answer"}
	})
	r.wait(time.Second)
	run[effect.Announce](r, delivered)
	wait := func(e effect.Bind) effect.Input {
		if e.Volumes == nil || e.Volumes.Picks[0].Claim != "c" {
			t.Fatalf("volumes of the bind: %+v", e.Volumes)
		}
		return effect.Answered{Op: e.Op, Result: effect.Waiting, Problem: "claim c has no volume yet"}
	}
	if first := answer(r, wait); first.Volumes.Written {
		t.Error("nothing has been seen written yet")
	}
	r.quiet("looked just now")
	for range 60 { // longer than BindDeadline
		r.wait(r.limits.Volumes.Poll)
		if e := answer(r, wait); !e.Volumes.Written {
			t.Fatal("what has been written is forgotten")
		}
	}
	r.wait(r.limits.Volumes.Deadline + r.limits.BindDeadline)
	r.expectFence("not bound within")
	found := r.eventsOf("FailedScheduling")
	if len(found) != 1 || !strings.Contains(found[0].Note, "binding to node n0 was given up") {
		t.Errorf("events %+v, want one about the volumes", found)
	}
}

func TestVolumesThatAreRefusedEndInAFence(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	r.promiseVolumes()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "volume v is for claim x"}
	})
	r.expectFence("volume v is for claim x")
}

// A claim for resources of the pod is created first, then named in the ledger, and only then written to.
func TestClaimIsNamedBeforeTheBind(t *testing.T) {
	r := newRig(t, 1)
	r.reserveWithClaim()
	run[effect.Announce](r, delivered)
	answer(r, func(e effect.Bind) effect.Input {
		made := ledger.DevicePick{Claim: "made", ClaimUID: "u", ClaimRV: 77}
		return effect.Answered{Op: e.Op, Result: effect.ClaimMade, Made: made}
	})
	if why := run[effect.Transact](r, delivered).Why; why != "name-claim" {
		t.Fatalf("after the claim is made: %s", why)
	}
	if got := r.doc().Entries[0].Devices[0]; got.ClaimUID != "u" || got.ClaimRV != 77 || got.Unmade() {
		t.Errorf("the ledger has %+v", got)
	}
	e := next[effect.Bind](r)
	if got := e.Devices.Picks[0]; got.ClaimUID != "u" || got.ClaimRV != 77 {
		t.Errorf("the bind is to write %+v", got)
	}
	run[effect.Bind](r, delivered)
}

// A reservation that was taken back while its claim was created does not get the claim.
func TestClaimOfAFencedReservationIsNotNamed(t *testing.T) {
	r := newRig(t, 1)
	entry := r.reserveWithClaim()
	run[effect.Announce](r, delivered)
	marked, err := txns.MarkFencing(r.doc(), entry.PodUID, entry.Token, ledger.FenceByPod)
	if err != nil {
		t.Fatal(err)
	}
	r.putDoc(marked)
	answer(r, func(e effect.Bind) effect.Input {
		made := ledger.DevicePick{Claim: "made", ClaimUID: "u", ClaimRV: 77}
		return effect.Answered{Op: e.Op, Result: effect.ClaimMade, Made: made}
	})
	if why := run[effect.Transact](r, delivered).Why; why != "name-claim" {
		t.Fatalf("after the claim is made: %s", why)
	}
	if got := r.doc().Entries[0]; got.State != ledger.Fencing || !got.Devices[0].Unmade() {
		t.Errorf("the ledger has %s %+v", got.State, got.Devices)
	}
}

// reserveWithClaim is reserve for a pod for whose resources a claim must be created.
func (r *rig) reserveWithClaim() ledger.Entry {
	r.Helper()
	r.shards[0].facts, r.shards[0].docs = len(r.api.history)-1, len(r.ledger.history)
	if !r.place(0, 0) {
		r.Fatal("the shard could not place p0 on n0")
	}
	d := r.doc()
	d.Entries = slices.Clone(d.Entries)
	d.Entries[0].Devices = []ledger.DevicePick{{Claim: "made", Allocation: []byte{1}, Spec: []byte{1}}}
	r.putDoc(d)
	r.showDocs(r.b, len(r.ledger.history))
	return r.doc().Entries[0]
}

// putDoc writes the document as another member.
func (r *rig) putDoc(d ledger.NodeDoc) {
	r.Helper()
	if !r.replace(d) {
		r.Fatal("the document has changed")
	}
}

// Another binder has bound the pod and emits the event. A binder whose bind was refused, and that could not read the
// pod at once, reports it only to the log: the pod's users read of its bind once. A binder that got no answer may
// have bound it, and emits the event.
func TestBindOfAnotherBinderIsReportedOnce(t *testing.T) {
	for name, c := range map[string]struct {
		refused bool
		reports int
	}{"refused": {true, 0}, "without an answer": {false, 1}} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, 1)
			e := r.reserve()
			bind := answer(r, func(e effect.Bind) effect.Input {
				return effect.Answered{Op: e.Op, Result: effect.Unknown, Refused: c.refused}
			})
			if got := r.api.bind(bind); got != effect.Done {
				t.Fatalf("bound by another: %v", got)
			}
			r.wait(time.Second)
			run[effect.Bind](r, delivered)
			if d := r.wantDecisions(events.DecisionBound)[0]; d.Token != e.Token.String() {
				t.Errorf("told: %+v", d)
			}
			if len(r.reported) != c.reports {
				t.Errorf("reported %+v, want %d reports", r.reported, c.reports)
			}
		})
	}
}

// The pod's owner learns once that its devices have binding conditions, in kube-scheduler's words and whether they hold
// at the first look or not. Other binds have no such event.
func TestBindingConditionsAreAnnouncedOnce(t *testing.T) {
	want := []effect.Report{{
		Pod: about("p0"), SchedulerName: "berth", Type: "Normal", Reason: "BindingConditionsPending",
		Action: "Scheduling", Note: "waiting for binding conditions for device on node n0",
	}}
	for _, result := range []effect.Result{effect.Waiting, effect.Done, effect.Refused} {
		if diff := cmp.Diff(want, reportsOfConditions(t, result, true)); diff != "" {
			t.Errorf("%s: events (-want +got):\n%s", result, diff)
		}
		if got := reportsOfConditions(t, result, false); len(got) > 0 {
			t.Errorf("%s, without conditions: events %+v", result, got)
		}
	}
}

// reportsOfConditions returns the events BindingConditionsPending about a bind that is answered in one way.
func reportsOfConditions(t *testing.T, result effect.Result, conditions bool) []effect.Report {
	t.Helper()
	r := newRig(t, 1)
	r.reserve()
	r.promiseVolumes()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "no answer"}
	})
	r.wait(time.Second)
	run[effect.Announce](r, delivered)
	for range 3 {
		answer(r, func(e effect.Bind) effect.Input {
			return effect.Answered{Op: e.Op, Result: result, Problem: "not ready", Conditions: conditions}
		})
		if result != effect.Waiting {
			break
		}
		r.wait(r.limits.Volumes.Poll)
	}
	return slices.DeleteFunc(r.reported, func(e effect.Report) bool { return e.Reason != "BindingConditionsPending" })
}
