// Package intake turns the outside world into typed input: the Kubernetes API into facts for the log, and the log,
// the ledger's watch and the shards' requests into inputs of package decide.
//
// Start reading at Cluster (the queue's only Kubernetes client), then Watch (one round of list and watch of every
// kind) and kindStore (which turns a watch into facts).
//
// The kinds to watch, and what the API server's version leaves out, are in served.go and release.go.
//
// Actual usage, which metrics.k8s.io reports and which cannot be watched, is polled (sampler) and becomes facts
// without progress.
//
// The guarantees of facts (section 4 of the architecture), each enforced by kindStore:
//
//   - A fact's progress never claims more than precedes it in the log: items of a list
//     carry the progress from before the list, the closing marker that of the list.
//   - A list is compared with the content of the log. Only differences become facts, and an
//     object that the list no longer has becomes a deletion at the list's resourceVersion.
//   - Nothing is dropped: the channel of facts is bounded, and a full one blocks the
//     reflector. Once a fact could not be handed over, the round sends no more.
package intake
