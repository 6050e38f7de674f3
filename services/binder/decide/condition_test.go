package decide

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func unplaceable(pod string, token uint64, message string) events.Decision {
	return events.Decision{Kind: events.DecisionUnplaceable, Pod: about(pod), SchedulerName: "berth",
		Token: ledger.Token(token).String(), Message: message, FactSequence: 1, Attempt: int32(token)}
}

func orderEvict(pod string, token uint64) events.Decision {
	return events.Decision{Kind: events.DecisionEvict, Pod: about(pod), Token: ledger.Token(token).String(),
		Strategy: "RemoveDuplicates", FactSequence: 1}
}

// TestQuarantineIsReported: it is reported in the condition, as an error of the scheduler, and in an event.
func TestQuarantineIsReported(t *testing.T) {
	r := newRig(t, 1)
	d := unplaceable("p0", 1, "in quarantine: 5 attempts in a row ended without an answer")
	d.Kind = events.DecisionQuarantined
	r.receive(d)
	patch := run[effect.PatchCondition](r, delivered)
	want := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "SchedulerError",
		Message: d.Message, ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(r.start),
	}
	if diff := cmp.Diff(want, patch.Condition); diff != "" {
		t.Errorf("condition (-want +got):\n%s", diff)
	}
	report := effect.Report{Pod: about("p0"), SchedulerName: "berth", Type: "Warning", Reason: "FailedScheduling",
		Action: "Scheduling", Note: d.Message}
	if diff := cmp.Diff([]effect.Report{report}, r.reported); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// The loss of a place is reported under its own reason: events with the same reason become a series, of which users
// see the first note.
func TestLossOfAPlaceIsAnEventOfItsOwn(t *testing.T) {
	r := newRig(t, 1)
	d := unplaceable("p0", 1, "The place held for it went to pod ns/p1.")
	d.Kind = events.DecisionWithdrawn
	r.receive(d)
	run[effect.PatchCondition](r, delivered)
	report := effect.Report{Pod: about("p0"), SchedulerName: "berth", Type: "Warning", Reason: "NominationWithdrawn",
		Action: "Scheduling", Note: d.Message}
	if diff := cmp.Diff([]effect.Report{report}, r.reported); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

// A place is given up, and the pod is rejected, while the condition of its nomination is being written: the loss is
// reported all the same, once.
func TestLossOfAPlaceIsReportedBehindAWrite(t *testing.T) {
	r := newRig(t, 1)
	nominated := unplaceable("p0", 1, "no room")
	lost := unplaceable("p0", 1, "The place held for it went to pod ns/p1.")
	lost.Kind = events.DecisionWithdrawn
	r.receive(nominated)
	r.receive(lost)
	r.receive(unplaceable("p0", 2, "no room again"))
	r.receive(unplaceable("p0", 3, "no room again"))
	run[effect.PatchCondition](r, delivered)
	run[effect.PatchCondition](r, delivered)
	var reasons []string
	for _, e := range r.reported {
		reasons = append(reasons, e.Reason)
	}
	if want := []string{"FailedScheduling", "NominationWithdrawn", "FailedScheduling"}; !slices.Equal(reasons, want) {
		t.Errorf("events %v, want %v", reasons, want)
	}
}

func TestConditionIsWrittenOnceAndReported(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "0/1 nodes: 50% full"))
	patch := run[effect.PatchCondition](r, delivered)
	want := corev1.PodCondition{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: "Unschedulable",
		Message: "0/1 nodes: 50% full", ObservedGeneration: 1, LastTransitionTime: metav1.NewTime(r.start),
	}
	if diff := cmp.Diff(want, patch.Condition); diff != "" {
		t.Fatalf("condition (-want +got):\n%s", diff)
	}
	d := r.wantDecisions(events.DecisionCondition)[0]
	if d.PodResourceVersion != r.api.now().rv || d.Token != ledger.Token(1).String() {
		t.Fatalf("told %+v, want resourceVersion %d", d, r.api.now().rv)
	}
	report := effect.Report{Pod: about("p0"), SchedulerName: "berth", Type: "Warning", Reason: "FailedScheduling",
		Action: "Scheduling", Note: "0/1 nodes: 50% full"}
	if diff := cmp.Diff([]effect.Report{report}, r.reported); diff != "" {
		t.Fatalf("reported (-want +got):\n%s", diff)
	}
	// The same outcome again, before and after the facts show the first.
	r.receive(unplaceable("p0", 2, "0/1 nodes: 50% full"))
	r.see()
	r.receive(unplaceable("p0", 3, "0/1 nodes: 50% full"))
	r.quiet("nothing to change")
	for _, d := range r.wantDecisions(events.DecisionCondition, events.DecisionCondition) {
		if d.PodResourceVersion != r.api.now().rv {
			t.Fatalf("told resourceVersion %d, want %d", d.PodResourceVersion, r.api.now().rv)
		}
	}
	if len(r.reported) != 3 {
		t.Fatalf("%d events, want one per attempt", len(r.reported))
	}
	r.wait(time.Second)
	if n := r.b.core.Stats().Conditions; n != 0 {
		t.Fatalf("%d conditions remembered after the facts show them", n)
	}
}

func TestConditionOfAnErrorKeepsTheTransitionTime(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "no room"))
	run[effect.PatchCondition](r, delivered)
	r.see()
	r.b.now = r.b.now.Add(time.Minute)
	failed := unplaceable("p0", 2, "internal error")
	failed.Kind = events.DecisionFailed
	r.receive(failed)
	c := next[effect.PatchCondition](r).Condition
	if c.Reason != "SchedulerError" || c.Message != "internal error" || !c.LastTransitionTime.Time.Equal(r.start) {
		t.Fatalf("condition %+v, want SchedulerError since %v", c, r.start)
	}
}

func TestNewerConditionMergesIntoTheOneThatWaits(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "first"))
	r.receive(unplaceable("p0", 2, "second"))
	r.receive(unplaceable("p0", 3, "third"))
	if c := run[effect.PatchCondition](r, delivered).Condition; c.Message != "first" {
		t.Fatalf("under way: %q", c.Message)
	}
	if c := run[effect.PatchCondition](r, delivered).Condition; c.Message != "third" {
		t.Fatalf("next: %q, want the latest", c.Message)
	}
	r.wantDecisions(events.DecisionCondition, events.DecisionCondition)
}

func TestConditionWithoutAnswerIsSentAgain(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "no room"))
	run[effect.PatchCondition](r, requestLost)
	r.wantDecisions()
	r.wait(200 * time.Millisecond)
	run[effect.PatchCondition](r, delivered)
	r.wantDecisions(events.DecisionCondition)
	if len(r.reported) != 1 {
		t.Fatalf("%d events for one attempt", len(r.reported))
	}
}

func TestRefusedConditionDoesNotHoldThePodUp(t *testing.T) {
	r := newRig(t, 1)
	r.receive(unplaceable("p0", 1, "no room"))
	answer(r, func(e effect.PatchCondition) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "forbidden"}
	})
	if d := r.wantDecisions(events.DecisionCondition)[0]; d.Message != "forbidden" {
		t.Fatalf("told %+v", d)
	}
	r.wait(time.Minute)
	r.quiet("refused")
}

func TestConditionOfBoundOrDeletedPodIsDropped(t *testing.T) {
	r := newRig(t, 2)
	r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Spec.NodeName = "n0" })
	r.api.deletePod("p1-uid")
	r.see()
	r.receive(unplaceable("p0", 1, "no room"))
	r.receive(unplaceable("p1", 2, "no room"))
	r.quiet("nobody waits for these conditions")
	r.wantDecisions()
}

func TestConditionOfAnotherBinderIsTakenOver(t *testing.T) {
	r := newRig(t, 2)
	r.hold(r.b, false)
	r.receive(unplaceable("p0", 1, "no room"))
	r.receive(unplaceable("p1", 2, "no room"))
	r.receive(events.Decision{
		Kind: events.DecisionCondition, Pod: about("p1"), Token: ledger.Token(2).String(), Actor: "other",
	})
	r.wait(time.Minute)
	r.quiet("not ours")
	r.hold(r.b, true)
	if p := next[effect.PatchCondition](r); p.Pod.UID != "p0-uid" {
		t.Fatalf("patch of %s, want only what the other binder left undone", p.Pod.UID)
	}
}

// A node that a plugin nominates for a pod that fits nowhere is written with the condition, once.
func TestNominationByAPlugin(t *testing.T) {
	r := newRig(t, 1)
	d := events.Decision{
		Kind: events.DecisionUnplaceable, Pod: about("p0"), SchedulerName: "berth", Token: ledger.Token(7).String(),
		Message: "0/1 nodes are available: 1 no.", NodeName: "n0",
	}
	for range 2 {
		r.receive(d)
		if patch := run[effect.PatchCondition](r, delivered); patch.NominatedNodeName != "n0" {
			t.Fatalf("nominated to %q, want n0", patch.NominatedNodeName)
		}
		r.see()
		r.wait(time.Second)
		r.quiet("it has been written")
		d.Token, d.NodeName = ledger.Token(8).String(), ""
		r.receive(d)
		r.quiet("nothing is new")
		r.api.changePod("p0-uid", func(p *corev1.Pod) { p.Status.NominatedNodeName = "" })
		r.see()
		d.Token, d.NodeName = ledger.Token(9).String(), "n0"
	}
}
