package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

const denied = `patch of pods/status: pods "p0" is forbidden: ValidatingAdmissionPolicy 'frozen' denied request`

// refusedFence has a reservation whose bind is refused and that waits to be fenced.
func refusedFence(t *testing.T) *rig {
	r := newRig(t, 1)
	r.reserve()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "pods are frozen"}
	})
	run[effect.Transact](r, delivered)
	r.reported = nil
	return r
}

// refuse answers each of the fence's writes within a time with a refusal, and counts them.
func (r *rig) refuse(within time.Duration) (tries int) {
	r.Helper()
	for end := r.b.now.Add(within); r.b.now.Before(end); r.wait(time.Second) {
		if len(r.b.lines) > 0 {
			answer(r, func(e effect.FencePod) effect.Input {
				return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: denied}
			})
			tries++
		}
	}
	return tries
}

// eventsOf returns the events about a pod with a reason.
func (r *rig) eventsOf(reason string) (found []effect.Report) {
	for _, e := range r.reported {
		if e.Reason == reason {
			found = append(found, e)
		}
	}
	return found
}

// A fence that the API server refuses for a day is reported at a bounded rate, retried at a bounded rate, and ends as
// soon as the API server accepts it.
func TestRefusedFenceIsReportedUntilItEnds(t *testing.T) {
	r := refusedFence(t)
	const day = 24 * time.Hour
	tries := r.refuse(day)
	if most := int(day/defaults.Refusals.Pause.Cap) + 10; tries > most || tries < most/2 {
		t.Errorf("%d tries in a day, want at most %d, and half of that at least", tries, most)
	}
	found := r.eventsOf("FailedRelease")
	if most := int(day / defaults.Refusals.ReportEvery); len(found) > most || len(found) < most/2 {
		t.Fatalf("%d events in a day, want at most %d, and half of that at least", len(found), most)
	}
	for _, part := range []string{"node n0", "bind refused: pods are frozen", "delete the pod", denied} {
		if e := found[0]; !strings.Contains(e.Note, part) || e.Type != "Warning" || e.Pod != about("p0") {
			t.Errorf("event %+v, want a warning with %q", e, part)
		}
	}
	for _, d := range r.published {
		if d.Kind != events.DecisionFenceRefused || d.NodeName != "n0" || !strings.Contains(d.Message, denied) {
			t.Errorf("decision %+v, want that the fence is refused, and by what", d)
		}
	}
	if n := r.b.core.Stats().FencesRefused; len(r.published) != len(found) || n != 1 {
		t.Errorf("%d decisions and %d events, and %d reservations counted, want 1", len(r.published), len(found), n)
	}

	r.published = nil
	r.wait(2 * defaults.Refusals.Pause.Cap)
	run[effect.FencePod](r, delivered)
	if n := r.b.core.Stats().FencesRefused; n != 0 {
		t.Errorf("%d reservations counted whose fence is refused, although it was let through", n)
	}
	run[effect.Transact](r, delivered)
	if d := r.wantDecisions(events.DecisionReleased)[0]; d.Message != "bind refused: pods are frozen" {
		t.Errorf("released because %q", d.Message)
	}
	r.wait(time.Second)
	if n := r.b.core.Stats().FencesRefused; n != 0 {
		t.Errorf("%d reservations counted whose fence is refused, want none after its end", n)
	}
}

// One or two refusals may be transient, for instance while a policy is being replaced.
func TestAFewRefusalsOfAFenceAreNotReported(t *testing.T) {
	r := refusedFence(t)
	for range defaults.Refusals.ReportAfter - 1 {
		answer(r, func(e effect.FencePod) effect.Input {
			return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: denied}
		})
		r.wait(defaults.Refusals.Pause.Cap)
	}
	run[effect.FencePod](r, delivered)
	run[effect.Transact](r, delivered)
	r.wantDecisions(events.DecisionReleased)
	if found := r.eventsOf("FailedRelease"); len(found) != 0 {
		t.Errorf("events %+v, want none", found)
	}
}

// Refusals with another answer between them are not in a row.
func TestRefusalsAroundALostAnswerAreNotReported(t *testing.T) {
	r := refusedFence(t)
	for range 4 {
		for _, result := range []effect.Result{effect.Refused, effect.Refused, effect.Unknown} {
			answer(r, func(e effect.FencePod) effect.Input {
				return effect.Answered{Op: e.Op, Result: result, Problem: denied}
			})
			r.wait(defaults.Refusals.Pause.Cap)
		}
	}
	if found := r.eventsOf("FailedRelease"); len(found) != 0 {
		t.Errorf("events %+v, want none", found)
	}
}

// A refused fence ends without any write when the pod is deleted, or turns out to be bound.
func TestRefusedFenceEndsWithThePod(t *testing.T) {
	for name, end := range map[string]func(r *rig){
		"deleted": func(r *rig) { r.api.deletePod("p0-uid") },
		"bound":   func(r *rig) { r.api.bind(effect.Bind{Pod: about("p0"), NodeName: "n0"}) },
	} {
		t.Run(name, func(t *testing.T) {
			r := refusedFence(t)
			r.refuse(time.Minute)
			end(r)
			r.see()
			for range 10 {
				r.wait(time.Second)
				for i := 0; i < len(r.b.lines); i++ {
					if e, ok := r.b.lines[i].(effect.FencePod); ok {
						r.b.lines = append(r.b.lines[:i:i], r.b.lines[i+1:]...)
						r.step(r.b, effect.Answered{Op: e.Op, Result: effect.Refused, Problem: denied})
						i--
					}
				}
				if len(r.b.lines) > 0 {
					run[effect.Amend](r, delivered)
				}
			}
			r.showDocs(r.b, len(r.ledger.history))
			r.wait(time.Second)
			if n := r.b.core.Stats().FencesRefused; n != 0 || len(r.doc().Entries) != 0 {
				t.Errorf("%d entries left, %d counted whose fence is refused, want none", len(r.doc().Entries), n)
			}
		})
	}
}

// A binder that loses the partition no longer counts the fence; the next holder does.
func TestRefusedFenceIsCountedByItsHolder(t *testing.T) {
	r := refusedFence(t)
	r.refuse(time.Minute)
	r.hold(r.b, false)
	r.wait(time.Second)
	if n := r.b.core.Stats().FencesRefused; n != 0 {
		t.Errorf("%d counted without the partition, want none", n)
	}
	r.hold(r.b, true)
	r.b.lines = nil
	r.reported = nil
	r.refuse(time.Minute)
	if n := r.b.core.Stats().FencesRefused; n != 1 || len(r.eventsOf("FailedRelease")) != 1 {
		t.Errorf("%d counted, events %+v, want one of each", n, r.reported)
	}
}

// The pod's owner sees why a bind was refused, each time.
func TestRefusedBindIsReported(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	answer(r, func(e effect.Bind) effect.Input {
		return effect.Answered{Op: e.Op, Result: effect.Refused, Problem: "pods are frozen"}
	})
	found := r.eventsOf("FailedScheduling")
	if len(found) != 1 || found[0].Type != "Warning" ||
		found[0].Note != "binding to node n0 was refused: pods are frozen" {
		t.Errorf("events %+v, want one that says why the bind was refused", found)
	}
}
