// Package intake turns the outside world into typed input: the Kubernetes API into facts for the log, and the log,
// the ledger's watch and the shards' requests into inputs of package decide.
//
// Start reading at Cluster (the queue's only Kubernetes client), then Watch (one round of list and watch of every
// kind) and kindStore (which turns a watch into facts).
//
// # From Kubernetes to the log (the leader only)
//
//   - Cluster.Watch runs one client-go reflector for each kind until the round ends. kinds.go lists the kinds;
//     served.go and release.go find out what the API server has of them, and log what its version leaves out.
//     watching.go follows what it serves later.
//   - serverGates knows which feature gates the API server has on, by its metrics, by the kinds that it serves and by
//     objects, and reports those that Berth does not follow.
//   - resumption stands between a reflector and the API server. Before each watch, it checks that the API server's
//     storage has not gone back. Lists are consistent reads (see consistent), so each of them shows that by itself.
//   - kindStore is the store that the reflector fills. It keeps no objects: it compares them with the log and hands the
//     differences on as facts.
//   - sampler polls actual usage, which metrics.k8s.io reports and which cannot be watched. Its facts have no progress.
//
// # From the log and the ledger to the core (every replica)
//
//   - Facts turns steps of the process's feed into FactsReset and FactsApplied.
//   - Holds folds the ledger's watch into its view, and turns the changes into LedgerMoved.
//   - Decisions follows the decisions log, and Work the shards' requests.
//
// Facts and Holds belong to the deciding goroutine. Everything else runs on goroutines of its own and hands over
// through bounded channels, except requests for work: one that does not fit is dropped, because the shard repeats it.
//
// # Guarantees of facts
//
// Each is enforced by kindStore:
//
//   - A fact's progress never claims more than precedes it in the log: items of a list
//     carry the progress from before the list, the closing marker that of the list.
//   - A list is compared with the content of the log. Only differences become facts, and an
//     object that the list no longer has becomes a deletion at the list's resourceVersion.
//   - Nothing is dropped: the channel of facts is bounded, and a full one blocks the
//     reflector. Once a fact could not be handed over, the round sends no more.
//
// An object that cannot be read, or a resourceVersion that runs backwards, ends the round: a gap in the facts that
// claims progress would make readers use a node whose pods they do not know.
//
// For example, a pod's label changes. The reflector calls Update; kindStore finds another resourceVersion than the
// log's, strips and encodes the pod, and sends a fact whose progress is the pod's resourceVersion. A bookmark that
// follows becomes a fact without an object, which only raises the progress.
package intake
