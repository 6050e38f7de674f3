// Package descheduler finds pods that should not be where they are, by a DeschedulerPolicy, and requests their
// eviction from the binders. It never talks to Kubernetes.
//
// Start reading at Descheduler.Run, then cycles, then decide.Core. Package policy reads the policy file. The stages are
// intake (facts, decisions and ledger → view), decide (view → evictions, pure) and commit
// (evictions → places in the ledger, requests in the log).
//
// Any number of replicas may run. All follow the log; the one that the ledger elects runs cycles. A cycle is one input
// of the core (loop and contract: pkg/driver):
//
//  1. cycles.Next waits until the cycle is due, reads the last sequence of the decisions, and waits until everything up
//     to it, and the facts of every kind the policy needs, have been applied;
//  2. the core decides;
//  3. cycles.Execute keeps the places of the replacements in the ledger, a few at a time, and appends the requests.
//
// So a new leader knows every request that was in the log when it began. If a deposed leader's last append arrives
// after that, both requests for a pod carry the same token and binders act on one.
//
// A crash leaves nothing (before 3), or places without a request and requests that were made: the next leader, or a
// binder, gives the former up, and the next leader reads the latter before its first cycle. The evictions themselves
// are the binders' work and go on without a descheduler.
//
// Goroutines: Run starts one for each stream of intake, one that watches the stop switch (pauseSwitch), and the
// deciding goroutine, which campaigns, leads and runs the cycles. The last one waits and does I/O between steps, which
// is harmless because a descheduler has nothing else to do. What it waits for ends with the leadership or with a pause.
//
// An example: a node gets a taint. The facts show it; the next cycle's strategy picks the pods that do not tolerate
// it; nodeFit finds a node for each replacement; the place there is kept (T12); the request is appended; a binder
// evicts the pod; a shard gives the kept place to the pod that the controller creates.
package descheduler
