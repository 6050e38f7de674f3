package sim

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// lateMutants are about members that read the ledger late.
func lateMutants() []Mutant {
	return []Mutant{
		{
			Name:    "list-passed-over",
			Missing: "a list after a compaction is passed over, and the watch goes on behind it",
			ledger: func(s *streams, b replica.Batch) replica.Batch {
				if b.Reset && s.listed {
					return replica.Batch{Events: ledger.EventBatch{Revision: b.Events.Revision}}
				}
				return b
			},
		},
	}
}
