// Package state holds WHAT IS TRUE about the cluster, as far as the log of facts tells it:
// pods, nodes and the other kinds, in memory, with snapshots that never change.
//
// Start reading at Store.Apply (how a fact changes the state) and Position.Progress (what
// a member may conclude from where it stands), then Pod, Node and NodeInfo (the values
// that decisions are made on). How a million pods fit: podParts takes the bytes of a pod
// apart, form is what it shares with others, podIndex is where it stands.
//
// Invariants:
//
//   - State is derived. It is a function of the facts up to Position.Sequence and of
//     nothing else: replaying the log, or restoring a snapshot and replaying the rest,
//     gives the same state (I4).
//   - A fact whose sequence has been applied changes nothing (I7). A sequence that skips
//     one is refused: what was skipped is unknown.
//   - Values are shared and immutable. A Pod, Node or Object never changes after it has
//     been published; only NodeInfo is mutable and belongs to one goroutine.
//   - What pods and nodes have in common is kept once per process, and weakly: it goes when
//     the last of them does. Pointers that are documented as identities (Pod.Kind,
//     Pod.Template, Node.Images) are equal exactly for equal content.
//   - Progress is defined only behind the start barrier and outside an epoch repair, and
//     comes from the facts' Progress field alone, never from an object's resourceVersion.
//
// Formulas name the kube-scheduler 1.36 source they agree with, so that they can be
// compared again when upstream changes.
package state
