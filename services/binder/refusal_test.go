package binder

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/metrics/legacyregistry"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/telemetry"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// refuse makes the API server refuse calls, named "verb/subresource".
func (s *site) refuse(calls ...string) {
	s.server.before = func(verb, subresource, pod string) (bool, error) {
		for _, c := range calls {
			if c == verb+"/"+subresource {
				return false, apierrors.NewForbidden(podsResource, pod, errors.New("pods are frozen"))
			}
		}
		return true, nil
	}
}

// A policy that denies every change of pods, and binds, does not keep a reservation from being taken back: the fence
// changes the pod's status. The pod's owner sees why it is not bound.
func TestFenceChangesNoPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		s.refuse("create/binding", "patch/", "update/")
		s.start("binder-0")
		settle(time.Second)
		s.reserve(s.server.pod("p0"), "n0", 1)
		settle(2 * time.Second)
		if d := s.decisions(events.DecisionReleased)["p0"]; !strings.Contains(d.Message, "pods are frozen") {
			t.Errorf("told %+v, want the reservation released, because the bind was refused", d)
		}
		token, mark := ledger.Token(1).String(), s.server.pod("p0").Annotations[effect.AnnotationFence]
		if !strings.HasPrefix(mark, token) {
			t.Errorf("mark %q, want one of token %s", mark, token)
		}
		if n := len(s.doc("n0").Entries); n != 0 {
			t.Errorf("%d entries left", n)
		}
		if notes := s.notes("FailedScheduling"); len(notes) != 1 || !strings.Contains(notes[0], "pods are frozen") {
			t.Errorf("events %q, want one that says why", notes)
		}
	})
}

// A refused fence is reported in an event of the pod, a decision in the log and a metric, until it is no longer
// refused.
func TestRefusedFenceIsReported(t *testing.T) {
	telemetry.Register()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, 1, 1)
		defer s.end()
		s.refuse("create/binding", "patch/", "patch/status")
		s.start("binder-of-refused")
		settle(time.Second)
		s.reserve(s.server.pod("p0"), "n0", 1)
		settle(time.Hour)
		notes := s.notes("FailedRelease")
		if len(notes) == 0 || !strings.Contains(notes[0], `patch of pods/status: pods "p0" is forbidden: pods are frozen`) {
			t.Errorf("events %q, want which write is refused, and by what", notes)
		}
		if d := s.decisions(events.DecisionFenceRefused)["p0"]; d.NodeName != "n0" || !strings.Contains(d.Message, "frozen") {
			t.Errorf("told %+v, want the refusal", d)
		}
		if n := refusedFences(t, "binder-of-refused"); n != 1 {
			t.Errorf("berth_fences_refused is %v, want 1", n)
		}
		s.server.mu.Lock()
		s.server.before = nil
		s.server.mu.Unlock()
		settle(2 * time.Minute)
		if _, released := s.decisions(events.DecisionReleased)["p0"]; !released || len(s.doc("n0").Entries) != 0 {
			t.Error("not released although nothing is refused any more")
		}
		if n := refusedFences(t, "binder-of-refused"); n != 0 {
			t.Errorf("berth_fences_refused is %v after the end, want 0", n)
		}
	})
}

// refusedFences returns the metric of a binder.
func refusedFences(t *testing.T, binder string) float64 {
	t.Helper()
	families, err := legacyregistry.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != "berth_fences_refused" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == binder {
				return m.GetGauge().GetValue()
			}
		}
	}
	t.Fatalf("no series of %s", binder)
	return 0
}
