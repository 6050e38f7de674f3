// Package binder is the only service that writes to Kubernetes: it binds the pods that have reservations in the
// ledger, takes back reservations that cannot be bound, writes conditions and events, and evicts.
//
// Any number of binders run, all active. Pods are spread over 64 binder partitions, and partitions over the live
// binders by rendezvous hashing. While the assignment changes, two binders may act on the same pod; every action is
// guarded against that. A binder follows the facts and the ledger itself, and treats the decision log as hints.
//
// Stages and goroutines:
//
//	intake  one goroutine each for the facts, the ledger and the decision log; all send to Binder.inputs
//	decide  the core, stepped by the deciding goroutine alone (loop, driven by pkg/driver)
//	commit  a group of workers for each lane, the writer of events and the writer of the decision log
//
// An effect's way: the core emits it in a step; loop.Execute puts it at the end of its lane's line; loop.Next hands it
// to a worker of the lane when one is free; the worker's answer becomes the next input of the piece of work that has
// emitted it. Effects of one lane are taken in the order in which they were emitted. Effects of different lanes are
// not ordered, so work that needs an order waits for an answer before it emits the next effect.
//
// An effect that waits in a line may become moot: the pod was bound, or the plan was given up. Lines with such effects
// are checked before each event, and the core is given effect.NotStarted in place of the answer.
//
// A bound pod passes through like this: the ledger's watch shows the reservation; the core finds the pod in the facts,
// rechecks the node and emits Bind; a worker posts the Binding with UID and resourceVersion as preconditions; the core
// raises the document's high-water mark once the facts show the pod on its node, and removes the entry.
//
// Start reading at Binder.Run (which connects the stages), then decide (what is decided, and the order of
// effects), intake and commit.
package binder
