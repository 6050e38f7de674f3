package decide_test

import (
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
)

// TestEvidence checks the records of a decision and of a lost race.
func TestEvidence(t *testing.T) {
	st := newScenario(t, 2, 4, 10)
	st.pod("p")
	first := st.target()
	st.lose()
	second := st.target()
	st.answer()
	if len(st.s.lost) != 1 || len(st.s.decisions) != 1 {
		t.Fatalf("lost %+v and decided %+v, want one of each", st.s.lost, st.s.decisions)
	}
	lost, placed := st.s.lost[0], st.s.decisions[0]
	if lost.Kind != events.DecisionLost || lost.NodeName != first || lost.Message != "node" {
		t.Errorf("the race is told as %+v, want %s lost on account of its node", lost, first)
	}
	was, is := lost.Evidence, placed.Evidence
	if was == nil || is == nil {
		t.Fatalf("evidence %v and %v, want both", was, is)
	}
	if was.Order != 1 || is.Order != 2 {
		t.Errorf("orders %d and %d, want 1 and 2", was.Order, is.Order)
	}
	if is.Class == 0 || is.Config == 0 || is.LedgerRevision == 0 || placed.LedgerRevision <= is.LedgerRevision {
		t.Errorf("evidence %+v of %+v: want class, configuration, and a revision before the reservation's", is, placed)
	}
	checkCandidates(t, placed, second)
	if is.Reserved <= 0 || is.Reserved.Truncate(time.Microsecond) != is.Reserved {
		t.Errorf("the answer took %s, want whole microseconds", is.Reserved)
	}
}

func checkCandidates(t *testing.T, d events.Decision, node string) {
	t.Helper()
	e := d.Evidence
	if len(e.Candidates) != evidence.MaxCandidates {
		t.Fatalf("%d candidates, want %d", len(e.Candidates), evidence.MaxCandidates)
	}
	if !slices.ContainsFunc(e.Candidates, func(c evidence.Candidate) bool { return c.Node == node }) {
		t.Errorf("candidates %+v, want %s among them", e.Candidates, node)
	}
	for _, c := range e.Candidates {
		var sum int64
		for _, points := range c.Points {
			sum += points
		}
		if sum != c.Total || len(c.Points) != len(e.ScoredBy) || c.Total == 0 {
			t.Errorf("%s: %v by %v add up to %d, want %d", c.Node, c.Points, e.ScoredBy, sum, c.Total)
		}
	}
}

// TestEvidenceOfRejection checks how many nodes each rule has rejected.
func TestEvidenceOfRejection(t *testing.T) {
	st := newScenario(t, 2, 3, 1)
	st.pod("huge", func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100")}
		p.Spec.PreemptionPolicy = new(corev1.PreemptNever)
	})
	if len(st.s.decisions) != 1 || st.s.decisions[0].Evidence == nil {
		t.Fatalf("decisions %+v, want one with evidence", st.s.decisions)
	}
	e := st.s.decisions[0].Evidence
	if got := e.Rejected["NodeResourcesFit"]; got != 3 || e.Order != 0 || len(e.Candidates) != 0 {
		t.Errorf("evidence %+v, want 3 nodes rejected by NodeResourcesFit", e)
	}
}
