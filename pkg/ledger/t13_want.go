package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// WantPartitions says who should hold partitions (the move of T13): each of them the member
// given, or with an empty one whom the hash says. The holders see it and hand over by
// ReleasePartition and TakePartition.
//
// No compares: it grants nothing, the last word counts. Puts or deletes: want/<p>. A crash
// before or after it leaves every partition with an owner, or vacant for a moment; one that
// should go to a member that is gone is treated as if nothing had been said.
func WantPartitions(members map[int32]string) (Txn, error) {
	var t Txn
	for _, p := range slices.Sorted(maps.Keys(members)) {
		if p < 0 || p >= Partitions {
			return Txn{}, fmt.Errorf("ledger: want partition %d, 0 to %d are accepted", p, Partitions-1)
		}
		if members[p] == "" {
			t.Deletes = append(t.Deletes, KeyWant(p))
			continue
		}
		value, err := EncodeOwner(Owner{Member: members[p]})
		if err != nil {
			return Txn{}, fmt.Errorf("ledger: want partition %d: %w", p, err)
		}
		t.Puts = append(t.Puts, Put{Key: KeyWant(p), Value: value})
	}
	return t, t.Validate()
}
