// Package plugins runs plugins that users have written against k8s.io/kube-scheduler/framework, unchanged,
// inside a process with scheduler shards.
//
// A plugin sees what it would see in kube-scheduler: a Handle, a CycleState per attempt, NodeInfos of all nodes with
// reservations counted, and one scheduling cycle at a time. Its answer is returned to the shard's core as an Advice,
// like that of an extender (docs/decisions/0018).
//
// Invariants:
//
//   - Cycles do not overlap: PreFilter to Score of one pod end before those of another begin, whichever shard of the
//     process asks, and so do Reserve and Permit. Within one shard, a whole cycle comes before the next one. Plugins
//     are created once per profile and process.
//   - What was reserved is given back once, or bound (docs/decisions/0020).
//   - What a plugin is shown is immutable: the plugin may keep it.
//   - No client is created unless a plugin asks for one.
//
// Start reading at New, Set.Consult and Set.Perform. handle.go is what plugins can ask for; node.go and pod.go are
// their view of the state.
package plugins
