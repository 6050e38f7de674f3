// Package state holds what is true about the cluster, as far as the log of facts shows it: pods, nodes and the
// other kinds, in memory, with snapshots that never change.
//
// Start reading at Store.Apply (how a fact changes the state) and Position.Progress (what a member may conclude
// from its position), then Pod, Node and NodeInfo (the values on which decisions are made). The memory layout that
// makes a million pods fit is in podParts, which splits the bytes of a pod, form, which a pod shares with
// others, and podIndex, where it is stored. What objects lose before they become facts is in packages strip and reduce.
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
