// Package plugins runs plugins that users have written against k8s.io/kube-scheduler/framework, unchanged,
// inside a process with scheduler shards.
//
// A plugin sees what it would see in kube-scheduler: a Handle, a CycleState per attempt, NodeInfos of all
// nodes with reservations counted, and one scheduling cycle at a time. What it says goes back to the
// shard's core as an Advice, as what extenders say does (docs/decisions/0018).
//
// Invariants:
//
//   - Cycles do not overlap: PreFilter to Score of one pod are over before those of another begin, whichever
//     shard of the process asks, and so are Reserve and Permit. Of one shard, all of a cycle comes before the
//     next one. Plugins are made once per profile and process.
//   - What was reserved is given back once, or bound (docs/decisions/0020).
//   - What a plugin is shown is frozen: it may keep it, and it does not change under its hands.
//   - No client is made unless a plugin asks for one.
//
// Start reading at New, Set.Consult and Set.Perform. handle.go is what plugins can ask for, node.go and pod.go are how
// they see the state.
package plugins
