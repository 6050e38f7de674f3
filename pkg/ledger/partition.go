package ledger

import "github.com/cespare/xxhash/v2"

// PartitionOf is the pod partition, 0 to Partitions-1, that a pod UID (or a gang's UID)
// belongs to. It is part of the data format: every member must agree on it.
func PartitionOf(uid string) int32 {
	return int32(xxhash.Sum64String(uid) % Partitions)
}

// Partition is the pod partition whose epoch guards this entry: that of the gang, else
// that of the pod.
func (e Entry) Partition() int32 {
	if e.Gang != "" {
		return PartitionOf(e.Gang)
	}
	return PartitionOf(e.PodUID)
}
