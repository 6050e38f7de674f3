package decide

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/state/strip"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// The bind of a pod whose annotations are full says so, and is recognised by the condition.
func TestBindOfFullAnnotations(t *testing.T) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", annotate(strip.FullAnnotation, "x"))
	r.see()
	r.reserve()
	if e := run[effect.Bind](r, answerLost); !e.AnnotationsFull {
		t.Fatalf("bind %+v, want one that leaves the annotations alone", e)
	}
	r.wantDecisions()
	r.wait(200 * time.Millisecond)
	run[effect.Bind](r, delivered)
	r.wantDecisions(events.DecisionBound)
	r.see()
	if p, _ := r.api.now().pods["p0-uid"], true; p.Annotation(effect.AnnotationAttempt) != "" || p.Attempt() == "" {
		t.Errorf("annotations %v, attempt %q, want the attempt without an annotation", p.Annotations(), p.Attempt())
	}
}

// Facts from before the decision do not show whether there is room: annotations may have been filled since.
func TestBindWaitsForTheFactsOfItsVersion(t *testing.T) {
	r := newRig(t, 1)
	r.api.changePod("p0-uid", annotate(strip.FullAnnotation, "x"))
	r.reserve()
	r.quiet("the facts do not show the version that the bind names")
	r.wait(time.Second)
	r.quiet("nor do they later")
	r.see()
	if e := next[effect.Bind](r); !e.AnnotationsFull {
		t.Fatalf("bind %+v, want one that leaves the annotations alone", e)
	}
}

// A pod that is read after a refused bind shows whether there is room now.
func TestRefreshLooksForRoom(t *testing.T) {
	r := newRig(t, 1)
	r.reserve()
	r.api.changePod("p0-uid", annotate(strip.FullAnnotation, "x"))
	if e := run[effect.Bind](r, delivered); e.AnnotationsFull {
		t.Fatalf("bind %+v, want an annotation: there was room", e)
	}
	run[effect.ReadDoc](r, delivered)
	if e := next[effect.Bind](r); !e.AnnotationsFull {
		t.Fatalf("bind %+v, want one that leaves the annotations alone", e)
	}
}

// fail answers the fence's write with an internal error of the API server for a while.
func (r *rig) fail(within time.Duration) (tries int) {
	r.Helper()
	for end := r.b.now.Add(within); r.b.now.Before(end); r.wait(time.Second) {
		if len(r.b.lines) > 0 {
			answer(r, func(e effect.FencePod) effect.Input {
				return effect.Answered{Op: e.Op, Result: effect.Unknown, Failed: true, Problem: "failed calling webhook"}
			})
			tries++
		}
	}
	return tries
}

// A fence whose write the API server fails to carry out, for instance because it cannot reach a webhook, is reported
// like one that is refused. A failure that lasts seconds is not reported, and is retried within seconds.
func TestFailingFenceIsReported(t *testing.T) {
	r := refusedFence(t)
	half, most := defaults.Refusals.Failing/2, defaults.Retry.Cap
	if tries := r.fail(half); tries < int(half/most) {
		t.Errorf("%d tries in %v, want one in %v at least", tries, half, most)
	}
	if found := r.eventsOf("FailedRelease"); len(found) != 0 {
		t.Fatalf("events %+v after %v, want none yet", found, defaults.Refusals.Failing/2)
	}
	r.fail(defaults.Refusals.Failing / 2)
	if tries := r.fail(time.Hour - defaults.Refusals.Failing); tries > 70 {
		t.Errorf("%d tries in an hour, want about one a minute", tries)
	}
	found := r.eventsOf("FailedRelease")
	if most := int(time.Hour / defaults.Refusals.ReportEvery); len(found) > most || len(found) < most/2 ||
		!strings.Contains(found[0].Note, "failed calling webhook") {
		t.Fatalf("events %+v, want at most %d that say why", found, most)
	}
	if n := r.b.core.Stats().FencesRefused; n != 1 {
		t.Errorf("%d reservations counted, want 1", n)
	}
}
