package sim

import "github.com/berth-scheduler/berth/pkg/ledger"

// lateMutants are about members that hear late of the ledger.
func lateMutants() []Mutant {
	return []Mutant{
		{
			Name:    "list-passed-over",
			Missing: "a list after a compaction is passed over, and the watch goes on behind it",
			ledger: func(s *streams, b ledger.ViewBatch) ledger.ViewBatch {
				if b.Reset && s.listed {
					return ledger.ViewBatch{Events: ledger.EventBatch{Revision: b.Events.Revision}}
				}
				return b
			},
		},
	}
}
