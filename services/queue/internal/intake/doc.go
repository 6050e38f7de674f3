// Package intake turns the world into typed input: the Kubernetes API into facts for the
// log, and the log, the ledger's watch and the shards' requests into inputs of decide.
//
// Start reading at Cluster (the one Kubernetes client of the queue), then Watch (one round
// of list and watch of every kind) and kindStore (where a watch becomes facts).
//
// Which kinds there are to watch, and what the API server's version leaves out, is in served.go and release.go.
//
// What cannot be watched, actual use as metrics.k8s.io tells it, is polled (sampler) and becomes
// facts without progress.
//
// What facts promise (section 4 of the architecture), each rule held by kindStore:
//
//   - A fact's progress never claims more than stands in front of it: items of a list
//     carry the progress from before the list, the closing marker that of the list.
//   - A list is compared with what the log says; only differences become facts, and what
//     the list no longer has becomes a deletion at the list's resourceVersion.
//   - Nothing is dropped: the channel of facts is bounded, and a full one holds up the
//     reflector. Once a fact could not be handed over, the round says no more.
package intake
