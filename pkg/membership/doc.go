// Package membership keeps track of live members and of the partitions and nodes each is responsible for.
//
// A Member is a key on a lease in the ledger; every process sees the live members through replica.Roster.Members. Each
// member's share follows from that list by rendezvous hashing, so that all members agree without communicating, and
// a member that joins or leaves moves only its own share:
//
//   - pod partitions belong to one scheduler shard each. This is ownership: the Keeper takes own/<partition> in the
//     ledger, and every decision compares its epoch. For some partitions want/<partition> names another member than the
//     hash does, to balance load; as long as that member is alive, it takes precedence over the hash;
//   - binder partitions are spread over the binders, and nodes over the shards as a soft preference. These grant no
//     ownership: two members that disagree for a moment cost time, nothing else.
//
// Start reading at Assign, then Join and Keeper. Members and keepers run one goroutine each, inside Run.
package membership
