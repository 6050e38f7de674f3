package decide

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

func ungate(pod string, token uint64) events.Decision {
	return events.Decision{Kind: events.DecisionUngate, Pod: about(pod), Token: ledger.Token(token).String()}
}

// gatedRig has one pod with the quota gate and another pod.
func gatedRig(t *testing.T) *rig {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", func(p *corev1.Pod) {
		p.Generation++
		p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "other"}, {Name: events.QuotaGate}}
	})
	r.see()
	return r
}

func TestAGateIsRemovedOnce(t *testing.T) {
	r := gatedRig(t)
	r.receive(ungate("p0", 1))
	answer(r, func(e effect.RemoveGate) effect.Input {
		if e.Gate != events.QuotaGate || e.Pod.UID != "p0-uid" {
			t.Fatalf("%+v", e)
		}
		return effect.Answered{Op: e.Op, Result: effect.Unknown}
	})
	r.quiet("no answer yet")
	r.wait(time.Second)
	answer(r, func(e effect.RemoveGate) effect.Input { return effect.Answered{Op: e.Op, Result: effect.Done} })
	r.wait(time.Minute)
	r.quiet("removed")
	r.api.changePod("p0-uid", func(p *corev1.Pod) {
		p.Generation++
		p.Spec.SchedulingGates = p.Spec.SchedulingGates[:1]
	})
	r.see()
	r.receive(ungate("p0", 1))
	r.quiet("it has no such gate")
}

func TestAGateOfAnotherBinderOrAGonePod(t *testing.T) {
	r := gatedRig(t)
	r.hold(r.b, false)
	r.receive(ungate("p0", 1))
	r.quiet("not ours")
	r.hold(r.b, true)
	answer(r, func(e effect.RemoveGate) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "no right"}
	})
	if found := r.eventsOf("FailedUngating"); len(found) != 1 || !strings.HasSuffix(found[0].Note, "Refused: no right") {
		t.Errorf("events %+v, want one that says why the gate stays", found)
	}
	r.wait(time.Minute)
	r.quiet("the queue asks again if it has to")
	r.api.deletePod("p0-uid")
	r.see()
	r.receive(ungate("p0", 2))
	r.quiet("gone")
	if n := r.b.core.gates.Pending(); n != 0 {
		t.Fatalf("%d are remembered", n)
	}
}

// The API server is unreachable for long, and the log may have lost the decision in that time: then the room is
// another pod's.
func TestGateIsRemovedInTimeOrNotAtAll(t *testing.T) {
	r := gatedRig(t)
	r.receive(ungate("p0", 1))
	begin := r.b.now
	for r.b.now.Sub(begin) <= events.UngateFor {
		for len(r.b.lines) > 0 {
			answer(r, func(e effect.RemoveGate) effect.Input {
				return effect.Answered{Op: e.Op, Result: effect.Unknown, Problem: "timeout"}
			})
		}
		r.wait(time.Second)
	}
	r.wait(10 * time.Second)
	r.quiet("its time is over")
	r.receive(ungate("p0", 2))
	waits := next[effect.RemoveGate](r)
	if _, moot := r.b.core.Moot(waits); moot {
		t.Fatal("moot at once")
	}
	if want := r.b.now.Add(events.UngateFor + defaults.Call); !waits.NotAfter.Equal(want) {
		t.Errorf("the call may take until %s, want %s", waits.NotAfter, want)
	}
	r.wait(events.UngateFor + time.Second)
	if op, moot := r.b.core.Moot(waits); !moot || op != waits.Op {
		t.Fatalf("moot %t as %d, want it to be as %d", moot, op, waits.Op)
	}
}

// A worker does not begin a removal whose time has expired by the wall clock, although it has not by the core's
// clock.
func TestGateThatIsNotTakenIsLeftToTheQueue(t *testing.T) {
	r := gatedRig(t)
	r.receive(ungate("p0", 1))
	answer(r, func(e effect.RemoveGate) effect.Input { return effect.NotStarted{Op: e.Op} })
	r.wait(time.Second)
	r.quiet("its time is over")
	r.receive(ungate("p0", 2))
	next[effect.RemoveGate](r)
}
