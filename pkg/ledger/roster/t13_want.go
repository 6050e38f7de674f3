package roster

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// WantPartitions records which members should hold partitions (the move of T13): for each partition the given
// member, or, if that is empty, the one that the hash selects. The holders see it and hand over by ReleasePartition
// and TakePartition.
//
// There are no compares: it grants nothing, and the last write wins. Puts or deletes: want/<p>. A crash before or
// after it leaves every partition with an owner, or vacant for a moment. A partition wanted for a member that is
// gone is treated as if no member were wanted.
func WantPartitions(members map[int32]string) (ledger.Txn, error) {
	var t ledger.Txn
	for _, p := range slices.Sorted(maps.Keys(members)) {
		if p < 0 || p >= ledger.Partitions {
			return ledger.Txn{}, fmt.Errorf("ledger: want partition %d: want 0 to %d", p, ledger.Partitions-1)
		}
		if members[p] == "" {
			t.Deletes = append(t.Deletes, KeyWant(p))
			continue
		}
		value, err := EncodeOwner(Owner{Member: members[p]})
		if err != nil {
			return ledger.Txn{}, fmt.Errorf("ledger: want partition %d: %w", p, err)
		}
		t.Puts = append(t.Puts, ledger.Put{Key: KeyWant(p), Value: value})
	}
	return t, t.Validate()
}
