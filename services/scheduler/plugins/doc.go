// Package plugins runs plugins that users have written against k8s.io/kube-scheduler/framework, unchanged, inside a
// process with scheduler shards.
//
// A plugin sees what it would see in kube-scheduler: a Handle, a CycleState per attempt, NodeInfos of all nodes with
// reservations counted, and one scheduling cycle at a time. Its answer is returned to the shard's core as an Advice,
// like that of an extender (docs/decisions/0018).
//
// # One pod's way
//
// The core of a shard decides; this package only answers. A shard's executor (services/scheduler/commit) calls it
// with the questions that the core has sent:
//
//	step.Consult       Set.Consult   PreEnqueue, PreFilter, Filter, extenders, PreScore, Score  ──► step.Advice
//	ActReserve         Set.Perform   Reserve, Permit, PreBindPreFlight                          ──► step.PluginResult
//	ActPrepare         Set.Perform   WaitOnPermit, PreBind
//	ActBind            Set.Perform   Bind
//	ActBound           Set.Perform   PostBind
//	ActUndo            Set.Perform   Unreserve
//	ActPostFilter      Set.Perform   PostFilter
//
// A cycle begins with the question and ends with ActBound, ActUndo or a failed act. Between the two the CycleState
// that the plugins have filled is kept in this process (openCycles). If the process dies, the state is lost, and the
// next owner of the pod's partition gives the held place up.
//
// An example: the profile "batch" has a plugin that waits at Permit until all pods of a group have a node. The core
// asks about the first pod (Consult), chooses a node, and requests ActReserve. Permit returns Wait for 10 minutes,
// so the answer has Later set: the core holds the place in the ledger and requests ActPrepare, which blocks in
// Set.permitted. Other pods are asked about meanwhile. When the last pod of the group reserves, the plugin calls
// Allow on all waiting pods through the Handle; each ActPrepare runs PreBind and returns, and each place is
// promoted. If the last pod never comes, the timeout rejects the pods, Unreserve runs in the act that waited, and
// the places are given up.
//
// # Errors
//
// A rejection by a plugin is an answer: the pod gets upstream's message and waits for the events for which the
// plugin has registered. An error is a failure of the attempt, after which the queue backs the pod off. A panic of a
// plugin ends the process, as in kube-scheduler; only queueing hints are guarded, because they run in the leading
// queue.
//
// # Parts
//
//   - Runtime (set.go) is the plugins of a process, Set those of one profile. Both are immutable after New, apart
//     from the state that they name.
//   - consultation (ask.go) is one question in progress; openCycle (perform.go) is a cycle from its question to its
//     end.
//   - cluster and nodeInfo (lister.go, node.go, pod.go, resource.go) are the nodes as plugins see them: built from the
//     copies in the question, and shared by all questions for which a node has not changed.
//   - handle (handle.go) answers requests of plugins; clients.go creates clients, informers and recorders when first
//     asked.
//   - waitingPods and preBinds (waiting.go) are the pods at Permit and at PreBind, which plugins of any profile may
//     allow, reject or cancel. activations (activate.go) are the pods that plugins want tried.
//   - hints (hints.go) are the events for which plugins have registered; the leading queue calls them.
//
// # Invariants
//
//   - Cycles do not overlap: PreFilter to Score of one pod end before those of another begin, whichever shard of the
//     process asks, and so do Reserve and Permit. Within one shard, a whole cycle comes before the next one. Plugins
//     are created once per profile and process.
//   - What was reserved is given back once, or bound (docs/decisions/0020).
//   - What a plugin is shown is immutable: the plugin may keep it.
//   - No client is created unless a plugin asks for one.
//
// # Concurrency
//
// Consult and Perform are called on goroutines of the executors, one per question, and may block for as long as a
// plugin does. Run has two goroutines of its own: one for informers and event recorders, one that delivers
// activations. Hints are called on the goroutine of the queue's core. No lock is held while a plugin runs, except
// the slot of the cycle.
//
// Start reading at New, Set.Consult and Set.Perform.
package plugins
