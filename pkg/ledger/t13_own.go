package ledger

import "fmt"

// TakePartition is T13 (take partition): owner takes the partition, on its lease.
//
// Compares: own/<p>.CreateRevision = 0. Puts: own/<p> on the lease. The epoch is the revision at which it commits.
// A crash before it leaves the partition vacant; after it the partition is owned until the lease expires, and no
// decision of a former owner can commit: every T1 compares the create revision. After it and before the first
// decision, the owner must list the ledger, and then apply facts up to the log's end as read after that.
func TakePartition(partition int32, owner Owner, lease int64) (Txn, error) {
	if partition < 0 || partition >= Partitions {
		return Txn{}, fmt.Errorf("ledger: partition %d: want 0 to %d", partition, Partitions-1)
	}
	if owner.Member == "" || lease == 0 {
		return Txn{}, fmt.Errorf("ledger: take partition %d: owner %q and lease %d must be given",
			partition, owner.Member, lease)
	}
	value, err := EncodeOwner(owner)
	if err != nil {
		return Txn{}, fmt.Errorf("ledger: take partition %d: %w", partition, err)
	}
	key := KeyOwn(partition)
	return Txn{
		Compares: []Compare{{Key: key, Target: CreateRevision}},
		Puts:     []Put{{Key: key, Value: value, Lease: lease}},
	}, nil
}

// ReleasePartition gives a partition up, so that another member can take it at once.
//
// Compares: own/<p>.CreateRevision = epoch. Deletes: own/<p>. From then on no decision made under that epoch can
// commit; those that have committed remain valid.
func ReleasePartition(partition int32, epoch int64) (Txn, error) {
	if partition < 0 || partition >= Partitions || epoch <= 0 {
		return Txn{}, fmt.Errorf("ledger: release partition %d of epoch %d: want 0 to %d and an epoch above 0",
			partition, epoch, Partitions-1)
	}
	key := KeyOwn(partition)
	return Txn{
		Compares: []Compare{{Key: key, Target: CreateRevision, Revision: epoch}},
		Deletes:  []string{key},
	}, nil
}
