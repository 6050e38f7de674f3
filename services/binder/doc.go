// Package binder is the only writer of Kubernetes: it binds what the ledger promises, takes
// back what cannot be bound, writes conditions and events, and evicts.
//
// Any number of binders run, all active. Pods are spread over 64 binder partitions, and
// partitions over the live binders by rendezvous hashing; while that changes two binders
// may act on the same pod, which every act is guarded against. A binder follows the facts
// and the ledger itself, and takes the decision log as hints.
//
// Start reading at Binder.Run (how the rooms are connected), then internal/decide (what is
// decided, and the order of effects), internal/intake and internal/commit.
package binder
