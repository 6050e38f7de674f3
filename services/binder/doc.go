// Package binder is the only service that writes to Kubernetes: it binds the pods that have reservations in the
// ledger, takes back reservations that cannot be bound, writes conditions and events, and evicts.
//
// Any number of binders run, all active. Pods are spread over 64 binder partitions, and partitions over the live
// binders by rendezvous hashing. While the assignment changes, two binders may act on the same pod; every action is
// guarded against that. A binder follows the facts and the ledger itself, and treats the decision log as hints.
//
// Start reading at Binder.Run (which connects the stages), then decide (what is decided, and the order of
// effects), intake and commit.
package binder
