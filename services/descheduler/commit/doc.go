// Package commit carries out the decisions of a cycle: it keeps the places of replacements in the ledger (T12) and
// appends the requests for evictions (asks) to the log. The binders carry out the evictions; nothing here talks to
// Kubernetes.
//
// Start reading at Room.Ask, whose order is the package's central rule:
//
//  0. keep the places of a few moves (a crash here leaves places without a request: the next
//     leader, or a binder, gives them up); see Room.Move;
//  1. record the requests of one batch in memory (a crash here leaves nothing);
//  2. append the batch (a crash after it leaves requests that the next leader reads before
//     its first cycle);
//  3. the next batch.
//
// An append whose answer is lost is repeated: every request carries a token that is a function of the pod and the
// number of the request, and binders act once per token.
package commit
