package decide

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// LedgerEvidence is the leading queue's knowledge of the ledger before it begins a round.
type LedgerEvidence struct {
	Generation identity.Generation
	// Store is the identity of the store, and Revision its current revision.
	Store    uint64
	Revision int64
	// Claimed means that the ledger belonged to the cluster before this leader claimed it.
	Claimed bool
	// FactsPublished means that the log has facts, so this is not a first installation.
	FactsPublished bool
	// Recorded is the revision up to which the ledger's history is in the log; 0 for none.
	Recorded int64
	// Contradicted means that the last record of that history differs from what the ledger holds.
	Contradicted bool
	// WentBack describes for which kind Kubernetes has lost changes that the log has; empty for none.
	WentBack string
}

// GenerationVerdict is the decision about the ledger's generation.
type GenerationVerdict uint8

const (
	// GenerationKept means that the generation stays.
	GenerationKept GenerationVerdict = iota + 1
	// GenerationFirst means that the ledger gets its first generation, with its content as it is.
	GenerationFirst
	// GenerationNext means that the promises in the ledger cannot be relied upon, so the next generation begins.
	GenerationNext
)

// JudgeGeneration decides whether the ledger still holds what members have relied upon. The reason is for people.
func JudgeGeneration(s LedgerEvidence) (v GenerationVerdict, reason string) {
	switch g := s.Generation; {
	case s.WentBack != "":
		return GenerationNext, "Kubernetes went back: " + s.WentBack
	case s.Recorded > s.Revision:
		return GenerationNext, fmt.Sprintf("the ledger went back: its history is recorded up to revision %d, and it is at %d",
			s.Recorded, s.Revision)
	case s.Contradicted:
		return GenerationNext, fmt.Sprintf("the ledger went back: it is not what its history says of revision %d", s.Recorded)
	case g.Revision == 0 && !s.Claimed && s.FactsPublished:
		return GenerationNext, "the ledger was lost: it is empty, and there are facts in the log"
	case g.Revision == 0:
		return GenerationFirst, ""
	case !g.Open && g.Reason != "":
		return GenerationNext, g.Reason
	case !g.Open:
		return GenerationNext, "its beginning was not finished"
	case g.Store != s.Store:
		return GenerationNext, fmt.Sprintf("its store is another one: it was begun in %x, and this is %x", g.Store, s.Store)
	}
	return GenerationKept, ""
}
