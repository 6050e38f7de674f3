package ledger

import "github.com/cespare/xxhash/v2"

// PartitionOf returns the pod partition, 0 to Partitions-1, that a pod UID or the name of a group of pods belongs to.
// It is part of the data format: every member must compute the same one.
func PartitionOf(uid string) int32 {
	return int32(xxhash.Sum64String(uid) % Partitions)
}

// Partition returns the pod partition whose epoch guards this entry: that of the pod's group, else that of the pod.
func (e Entry) Partition() int32 {
	if e.GroupPartition > 0 {
		return e.GroupPartition - 1
	}
	return PartitionOf(e.PodUID)
}
