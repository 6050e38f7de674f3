// Package nominate models preemption: a pod holds a place and claims its victims in one transaction, and only then is
// a victim evicted (pkg/ledger: T1 to T4 and T8).
//
// Shards decide on arbitrarily late facts, and on documents that they compare. The binder marks a claim before it
// sends the eviction, which may arrive at any time from then on; an evicted pod uses its capacity until it has ended.
// Plans are promoted, displaced by pods of higher priority, or given up at any moment, by any shard; pods are deleted
// by their users.
//
// Invariants: no node is overcommitted, victims that have not ended included; each victim belongs to one plan, and is
// evicted only while a plan claims it; a pod whose victims were evicted can use the place, and does not lose it to
// another pod after that; a committed place is not taken away without a fence.
//
// Left out, because package reserve has it: entries stay in their documents when their pods are bound, so there is no
// high-water; and nothing that is committed is fenced.
//
// Start reading at world (the state), then model.next (the possible steps). The rule that decides whether a plan's
// capacity will be free is model.future.
package nominate
