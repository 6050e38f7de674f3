package podgroups_test

import (
	"iter"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	schedulingv1alpha2 "k8s.io/api/scheduling/v1alpha2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/membership"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
	"github.com/berth-scheduler/berth/services/binder/decide/podgroups"
)

// cluster is a cluster with one group and one pod of it.
type cluster struct {
	effect.Cluster
	pod   *corev1.Pod
	group *schedulingv1alpha2.PodGroup
}

func (c *cluster) Pod(uid string) (*state.Pod, bool) {
	return state.NewPod(c.pod), uid == string(c.pod.UID)
}

// rig is a writer of a binder that holds all partitions.
type rig struct {
	*testing.T
	*cluster
	base     *basis.Base
	writer   *podgroups.Writer
	revision int64
}

func newRig(t *testing.T) *rig {
	name := "train"
	r := &rig{T: t, cluster: &cluster{
		pod: &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "a", UID: "a", ResourceVersion: "1"},
			Spec:       corev1.PodSpec{SchedulingGroup: &corev1.PodSchedulingGroup{PodGroupName: &name}},
		},
		group: &schedulingv1alpha2.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, UID: "g", Generation: 3, ResourceVersion: "12"},
		},
	}}
	r.base = basis.New("binder-0", basis.DefaultLimits(), func(string, string) bool { return true })
	r.base.Now = time.Unix(1_000_000, 0)
	r.hold(true)
	r.fold()
	r.base.Facts = effect.FactsChanged{
		Cluster: r.cluster,
		Group: func(namespace, name string) *schedulingv1alpha2.PodGroup {
			if r.group == nil || namespace != r.group.Namespace || name != r.group.Name {
				return nil
			}
			return r.group
		},
		Groups: func() iter.Seq[*schedulingv1alpha2.PodGroup] {
			return func(yield func(*schedulingv1alpha2.PodGroup) bool) {
				if r.group != nil {
					yield(r.group)
				}
			}
		},
		Members: func(string, string) iter.Seq[*state.Pod] {
			return func(yield func(*state.Pod) bool) { yield(state.NewPod(r.pod)) }
		},
	}
	r.writer = podgroups.New(r.base)
	return r
}

// hold makes the binder hold all partitions, or none but another group's.
func (r *rig) hold(all bool) {
	var held []int32
	for p := range int32(membership.BinderPartitions) {
		if all || p != membership.BinderPartition("g") {
			held = append(held, p)
		}
	}
	r.base.Hold(held)
}

// fold makes a ledger with these entries on one node the binder's view.
func (r *rig) fold(entries ...ledger.Entry) {
	r.Helper()
	doc := ledger.NodeDoc{NodeUID: "n", NodeName: "n"}
	for _, e := range entries {
		var err error
		if doc, err = txns.Place(doc, e); err != nil {
			r.Fatal(err)
		}
	}
	data, err := codec.EncodeNodeDoc(doc)
	if err != nil {
		r.Fatal(err)
	}
	r.revision++
	batch := replica.Batch{Reset: true, Events: ledger.EventBatch{Revision: r.revision}}
	if len(entries) > 0 {
		batch.KVs = []ledger.KV{{Key: ledger.KeyNode("n"), Value: data, ModRevision: r.revision}}
	}
	if _, err := r.base.Ledger.Fold(batch); err != nil {
		r.Fatal(err)
	}
}

// round lets time pass, and returns the only write that is requested; nil for none.
func (r *rig) round(pass time.Duration) *effect.PatchGroup {
	r.Helper()
	r.base.Now = r.base.Now.Add(pass)
	r.writer.Advance()
	switch out := r.base.Emitted(); len(out) {
	case 0:
		return nil
	case 1:
		e, ok := out[0].(effect.PatchGroup)
		if !ok {
			r.Fatalf("effect %T, want a write", out[0])
		}
		return &e
	default:
		r.Fatalf("%d effects, want one at most", len(out))
	}
	return nil
}

// show makes the facts show a condition.
func (r *rig) show(c metav1.Condition) { r.group.Status.Conditions = []metav1.Condition{c} }

func decision(kind events.DecisionKind, message string) events.Decision {
	return events.Decision{Kind: kind, Pod: events.PodRef{UID: "a", Namespace: "ns", Name: "a"}, Message: message}
}

// A condition is False with the message of the last decision, True once a member has a place, and never goes back.
func TestCondition(t *testing.T) {
	r := newRig(t)
	if e := r.round(time.Minute); e != nil {
		t.Fatalf("without a decision: %+v", e)
	}
	r.writer.Seen(decision(events.DecisionUnplaceable, "no room"))
	e := r.round(time.Second)
	if e == nil || e.Condition.Status != metav1.ConditionFalse || e.Condition.Reason != "Unschedulable" ||
		e.Condition.Message != "pod group is unschedulable: no room" || e.Condition.ObservedGeneration != 3 ||
		e.UID != "g" || e.ResourceVersion != "12" {
		t.Fatalf("after a rejection: %+v", e)
	}
	if again := r.round(time.Minute); again != nil {
		t.Fatalf("while a write is in flight: %+v", again)
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Unknown})
	if e = r.round(time.Minute); e == nil {
		t.Fatal("a write without an answer is not repeated")
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Done})
	r.show(e.Condition)
	r.writer.Seen(decision(events.DecisionUnplaceable, "no room"))
	if e = r.round(time.Minute); e != nil {
		t.Fatalf("the condition shows already: %+v", e)
	}
	since := r.group.Status.Conditions[0].LastTransitionTime
	r.writer.Seen(decision(events.DecisionFailed, "broken"))
	if e = r.round(time.Minute); e == nil || e.Condition.Reason != "SchedulerError" || e.Condition.Message != "broken" ||
		e.Condition.LastTransitionTime != since {
		t.Fatalf("after an error: %+v, want it since %v", e, since)
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Done})
	r.show(e.Condition)

	r.fold(ledger.Entry{
		PodUID: "a", Namespace: "ns", Name: "a", Role: ledger.RoleReservation, State: ledger.Committed, Token: 7,
		Shard: "scheduler-0", SchedulerName: "berth", PodRV: 1,
	})
	e = r.round(time.Minute)
	if e == nil || e.Condition.Status != metav1.ConditionTrue || e.Condition.Reason != "Scheduled" ||
		e.Condition.Message != "" {
		t.Fatalf("with a reservation: %+v", e)
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Done})
	r.show(e.Condition)
	r.fold()
	r.writer.Seen(decision(events.DecisionUnplaceable, "no room"))
	if e = r.round(time.Minute); e != nil || r.writer.Waiting() != 0 {
		t.Fatalf("a condition goes back: %+v", e)
	}
}

// A binder that takes a group over needs no message to find that a member is bound, and one that does not hold the
// group's partition writes nothing.
func TestTakeOver(t *testing.T) {
	r := newRig(t)
	r.hold(false)
	r.pod.Spec.NodeName = "n"
	r.writer.Seen(decision(events.DecisionPlaced, ""))
	if e := r.round(time.Minute); e != nil {
		t.Fatalf("another binder's group is written: %+v", e)
	}
	r.hold(true)
	e := r.round(time.Minute)
	if e == nil || e.Condition.Status != metav1.ConditionTrue {
		t.Fatalf("after the take-over: %+v", e)
	}
	r.base.Answer(e.Op, effect.NotStarted{Op: e.Op})
	if e = r.round(time.Minute); e == nil {
		t.Fatal("a write that was not begun is not repeated")
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Done})
	r.group.UID = types.UID("another")
	if e = r.round(time.Minute); e == nil || e.UID != "another" {
		t.Fatalf("a group that was made again: %+v", e)
	}
	r.group = nil
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Gone})
	if e = r.round(time.Minute); e != nil || r.writer.Waiting() != 0 {
		t.Fatalf("a group that is gone: %+v", e)
	}
}

// Pods without a group cost nothing.
func TestPodsWithoutAGroup(t *testing.T) {
	r := newRig(t)
	r.pod.Spec.SchedulingGroup = nil
	r.writer.Seen(decision(events.DecisionUnplaceable, strings.Repeat("x", 9)))
	if r.writer.Waiting() != 0 {
		t.Error("a pod without a group is remembered")
	}
}

// Of the pods of a gang one has the whole message, and the others its beginning: the group keeps the whole one.
func TestWholeMessageIsKept(t *testing.T) {
	r := newRig(t)
	const whole = "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled: " +
		"4 of 5 members can be placed"
	of := func(message string) events.Decision {
		d := decision(events.DecisionUnplaceable, message)
		d.Plugins = []string{"GangScheduling"}
		return d
	}
	short, _, _ := strings.Cut(whole, ": ")
	r.writer.Seen(of(whole))
	r.writer.Seen(of(short))
	r.writer.Seen(decision(events.DecisionUnplaceable, "0/2 nodes are available"))
	e := r.round(time.Second)
	if e == nil || e.Condition.Message != whole {
		t.Fatalf("written: %+v", e)
	}
	r.base.Answer(e.Op, effect.Answered{Op: e.Op, Result: effect.Done})
	r.show(e.Condition)
	if e = r.round(time.Minute); e != nil {
		t.Fatalf("written again: %+v", e)
	}
	r.writer.Seen(of(short))
	if e = r.round(time.Minute); e != nil {
		t.Fatalf("the beginning is written after the whole: %+v", e)
	}
}
