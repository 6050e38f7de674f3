// Package roster is about the members of the ledger and the partitions that they own (T13). A member registers itself
// on its lease, and takes partitions on the same lease. The create revision of a partition's key is the owner's epoch,
// which every transaction about pods of the partition compares, so that a deposed owner writes nothing.
//
// Package membership decides who takes which partition.
package roster
