// Package membership says who is alive and who looks after what.
//
// A Member is a key on a lease in the ledger; everybody sees the live ones through
// ledger.View.Members. What each looks after follows from that list, by rendezvous
// hashing, so that all members agree without talking, and a member that comes or goes moves
// only its own share:
//
//   - pod partitions belong to one scheduler shard each. This is ownership: the Keeper
//     takes own/<partition> in the ledger, and every decision compares its epoch. For some
//     partitions want/<partition> names another member than the hash does, to balance load;
//     as long as that member is alive, it counts instead;
//   - binder partitions are spread over the binders, and nodes over the shards as soft
//     preference. These grant nothing: two members that disagree for a moment cost time.
//
// Start reading at Assign, then Join and Keeper. Members and keepers run one goroutine
// each, inside Run.
package membership
