// Package commit carries out the decisions of a cycle: it keeps the places of replacements in the ledger (T12) and
// appends the requests for evictions to the log. The binders carry out the evictions; nothing here talks to
// Kubernetes.
//
// Start reading at Executor.RequestEvictions, whose order is the package's central rule:
//
//  0. keep the places of a few moves (a crash here leaves places without a request: the next
//     leader, or a binder, gives them up); see Executor.CarryOut;
//  1. record the requests of one batch in memory (a crash here leaves nothing);
//  2. append the batch (a crash after it leaves requests that the next leader reads before
//     its first cycle);
//  3. the next batch.
//
// Places come before requests, because a request in the log may be carried out at once: an eviction without a place
// would let any pod take the place that the plan found. The memory comes before the log, so that a request whose
// answer is lost counts as made.
//
// An append whose answer is lost is repeated: every request carries a token that is a function of the pod and the
// number of the request, and binders act once per token. So is a transaction of the ledger, whose compares let one
// copy through.
//
// The package has no state of its own. It reads the cycle's view of the ledger through the port Promises, and runs
// on the goroutine of the cycle.
package commit
