package audit

import (
	"slices"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// keep runs T12 on two documents at once: a place on m for the replacement of a pod on n.
func (s *scenario) keep(victim string, claimed bool) {
	s.Helper()
	place := ledger.Entry{
		PodUID: victim + "-uid", Namespace: "d", Name: victim, Role: ledger.RoleMove, Token: 7, Plan: planID,
		Replacement: ledger.Replacement{Owner: "rs", Template: "t"},
	}
	m, n := s.docs["m"], s.docs["n"]
	m.Entries = append(slices.Clone(m.Entries), place)
	if claimed {
		n.Entries = append(slices.Clone(n.Entries), claimOn(victim, planID))
	}
	s.write(m, n)
}

func TestMoves(t *testing.T) {
	ofTwo := func(t *testing.T) *scenario {
		s := begin(t).node("n", "2", nil).node("m", "2", nil).pod("w", "1").pod("r", "1")
		s.foreign("w", "n")
		return s
	}
	gone := func(d *ledger.NodeDoc) { d.Entries = nil }
	t.Run("as it should be", func(t *testing.T) {
		s := ofTwo(t)
		s.keep("w", true)
		s.marks("w")
		s.edit("m", func(d *ledger.NodeDoc) { d.Entries = []ledger.Entry{s.entry("r")} })
		s.bind("r", "m")
		if r := s.finds(); r.Moves != 1 || r.TakenOver != 1 || r.Evictions != 1 {
			t.Errorf("counts %+v", r.Counts)
		}
	})
	t.Run("given up", func(t *testing.T) {
		s := ofTwo(t)
		s.keep("w", true)
		s.edit("m", gone)
		s.edit("n", gone)
		if r := s.finds(); r.Moves != 1 || r.TakenOver != 0 {
			t.Errorf("counts %+v", r.Counts)
		}
	})
	t.Run("S9: a place without a pod that goes", func(t *testing.T) {
		s := ofTwo(t)
		s.keep("w", false)
		s.finds("violation S9 pod/d/w node/m")
	})
	t.Run("S9: marked after the place was given up", func(t *testing.T) {
		s := ofTwo(t)
		s.keep("w", true)
		s.edit("m", gone)
		s.marks("w")
		s.finds("violation S9 pod/d/w node/n")
	})
}
