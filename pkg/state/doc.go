// Package state holds what is true about the cluster, as far as the log of facts shows it: pods, nodes and the
// other kinds, in memory, with snapshots that never change.
//
// Start reading at Store.Apply (how a fact changes the state) and Position.Progress (what a member may conclude
// from its position), then Pod, Node and NodeInfo (the values on which decisions are made). What objects lose
// before they become facts is in packages strip and reduce; package follow reads the log for a store, and package
// feed shares one store among the services of a process.
//
// The way of a fact about a pod: Apply computes the next position and rejects a gap or an unseen epoch. The
// application looks up the pod by UID, and skips a version that it has. podReader splits the message into what is
// individual to the pod and what it shares with others (package wire), finds or builds the shared part (form,
// package intern) and makes a Pod of both. The pod is put into its slot in the application's own version of the pods
// (package persist). A pod that comes, goes or moves also changes drafts: of the order of names, and of the pods of its
// node. After the last fact of the batch the drafts are written in one transaction, and a new Snapshot is published.
//
// Who owns what: one goroutine applies facts to a Store. Everything that it publishes is immutable, so any number
// of goroutines may read snapshots without a lock, and a snapshot stays valid for as long as it is referenced.
// NodeInfo is the exception: a mutable sum for one goroutine, such as a shard's. The tables of shared content are
// global to the process and have their own locks.
//
// The layout makes a million pods fit:
//
//   - A Pod has the fields that decisions read, a pointer to its form, and one string with the rest (wire.Own).
//   - Pods of one template in the same condition share a form: the template, the status without times, and all
//     values that are derived from them.
//   - A pod has a slot (podTable), and the tables of pods hold slots: an index by UID, pages of up to 64 names
//     (podNames), and the pods of each node. A row of memdb for each would cost more than the pod.
//
// A crash leaves nothing: a process starts from a stored snapshot (Restore) or from an empty store, and replays the
// log.
//
// To add a kind: name it in events.Kind, and here in kinds, newAPIObject and, if its objects have namespaces,
// namespaced; decide what strip removes from it. Readers of an earlier version leave its facts out
// (Snapshot.Partial).
//
// Invariants:
//
//   - State is derived. It is a function of the facts up to Position.Sequence and of nothing else: replaying the
//     log, or restoring a snapshot and replaying the rest, gives the same state (I4).
//   - A fact whose sequence has been applied changes nothing (I7). A sequence that skips one is refused, because
//     the skipped fact is unknown.
//   - Values are shared and immutable. A Pod, Node or Object never changes after it has been published; only
//     NodeInfo is mutable and belongs to one goroutine.
//   - Content that pods and nodes have in common is kept once per process, and by weak references: it is released
//     with the last of them. Pointers that are documented as identities (Pod.Kind, Pod.Template, Node.Images) are
//     equal exactly for equal content.
//   - Progress is defined only after the start barrier and outside an epoch repair, and comes only from the facts'
//     Progress field, never from an object's resourceVersion.
//
// Formulas name the kube-scheduler 1.36 source they agree with, so that they can be compared again when upstream
// changes.
package state
