package roster

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// TakePartition is T13 (take partition): owner takes the partition, on its lease.
//
// Compares: own/<p>.CreateRevision = 0. Puts: own/<p> on the lease. The epoch is the revision at which it commits.
// A crash before it leaves the partition vacant; after it the partition is owned until the lease expires, and no
// decision of a former owner can commit: every T1 compares the create revision. After it and before the first
// decision, the owner must list the ledger, and then apply facts up to the log's end as read after that.
func TakePartition(partition int32, owner Owner, lease int64) (ledger.Txn, error) {
	if partition < 0 || partition >= ledger.Partitions {
		return ledger.Txn{}, fmt.Errorf("ledger: partition %d: want 0 to %d", partition, ledger.Partitions-1)
	}
	if owner.Member == "" || lease == 0 {
		return ledger.Txn{}, fmt.Errorf("ledger: take partition %d: owner %q and lease %d must be given",
			partition, owner.Member, lease)
	}
	value, err := EncodeOwner(owner)
	if err != nil {
		return ledger.Txn{}, fmt.Errorf("ledger: take partition %d: %w", partition, err)
	}
	key := KeyOwn(partition)
	return ledger.Txn{
		Compares: []ledger.Compare{{Key: key, Target: ledger.CreateRevision}},
		Puts:     []ledger.Put{{Key: key, Value: value, Lease: lease}},
	}, nil
}

// ReleasePartition gives a partition up, so that another member can take it at once.
//
// Compares: own/<p>.CreateRevision = epoch. Deletes: own/<p>. From then on no decision made under that epoch can
// commit; those that have committed remain valid.
func ReleasePartition(partition int32, epoch int64) (ledger.Txn, error) {
	if partition < 0 || partition >= ledger.Partitions || epoch <= 0 {
		return ledger.Txn{}, fmt.Errorf("ledger: release partition %d of epoch %d: want 0 to %d and an epoch above 0",
			partition, epoch, ledger.Partitions-1)
	}
	key := KeyOwn(partition)
	return ledger.Txn{
		Compares: []ledger.Compare{{Key: key, Target: ledger.CreateRevision, Revision: epoch}},
		Deletes:  []string{key},
	}, nil
}
