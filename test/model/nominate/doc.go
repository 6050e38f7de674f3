// Package nominate models preemption: a pod holds a place and claims its victims in one
// transaction, and only then is anybody evicted (pkg/ledger: T1 to T4 and T8).
//
// Shards decide on facts as late as they like, on documents that they compare. The binder
// marks a claim before it sends the eviction, which may arrive at any time from then on; an
// evicted pod takes its room until it has ended. Plans are promoted, displaced by pods of
// higher priority, or given up at any moment, by any shard; pods are deleted by their users.
//
// What must hold: no node is overcommitted, victims that have not ended included; each
// victim belongs to one plan, and is evicted only while one claims it; whoever has had
// somebody evicted can use the place; nobody loses it to another after that; what is
// committed is not taken away without a fence.
//
// Left out, because package reserve has it: entries stay in their documents when their pods
// are bound, so there is no high-water; and nothing that is committed is fenced.
//
// Start reading at world (what there is), then model.next (what can happen). The rule that
// decides whether a plan's room will be there is model.future.
package nominate
