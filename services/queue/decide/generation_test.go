package decide

import (
	"strings"
	"testing"

	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

func TestJudgeGeneration(t *testing.T) {
	open := identity.Generation{Number: 3, Store: 7, Open: true, Revision: 9}
	closed := identity.Generation{Number: 3, Store: 7, Revision: 9, Reason: "a member noticed"}
	usual := LedgerEvidence{Generation: open, Store: 7, Revision: 100, Claimed: true, FactsPublished: true, Recorded: 100}
	unfinished, none := open, identity.Generation{}
	unfinished.Open = false
	with := func(change func(*LedgerEvidence)) LedgerEvidence {
		s := usual
		change(&s)
		return s
	}
	for name, c := range map[string]struct {
		seen   LedgerEvidence
		want   GenerationVerdict
		reason string
	}{
		"as it was":            {usual, GenerationKept, ""},
		"nothing recorded yet": {with(func(s *LedgerEvidence) { s.Recorded = 0 }), GenerationKept, ""},
		"a first installation": {LedgerEvidence{Store: 7, Revision: 2}, GenerationFirst, ""},
		"a version before":     {with(func(s *LedgerEvidence) { s.Generation = none }), GenerationFirst, ""},
		"an empty ledger":      {LedgerEvidence{Store: 7, Revision: 2, FactsPublished: true}, GenerationNext, "was lost"},
		"a doubt":              {with(func(s *LedgerEvidence) { s.Generation = closed }), GenerationNext, "noticed"},
		"another store":        {with(func(s *LedgerEvidence) { s.Store = 8 }), GenerationNext, "begun in 7, and this is 8"},
		"a revision of before": {with(func(s *LedgerEvidence) { s.Revision = 99 }), GenerationNext, "up to revision 100"},
		"a history of another": {
			with(func(s *LedgerEvidence) { s.Contradicted = true }), GenerationNext, "not what its history",
		},
		"Kubernetes restored": {with(func(s *LedgerEvidence) { s.WentBack = "pods" }), GenerationNext, "went back: pods"},
		"a broken beginning":  {with(func(s *LedgerEvidence) { s.Generation = unfinished }), GenerationNext, "not finished"},
	} {
		if v, reason := JudgeGeneration(c.seen); v != c.want || !strings.Contains(reason, c.reason) {
			t.Errorf("%s: %d because %q, want %d because %q", name, v, reason, c.want, c.reason)
		}
	}
}
