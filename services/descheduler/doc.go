// Package descheduler finds pods that should not be where they are, by a DeschedulerPolicy, and requests their
// eviction from the binders. It never talks to Kubernetes.
//
// Start reading at Descheduler.Run, then decide.Cycle. Package policy reads the policy file. The stages are
// intake (facts, decisions and ledger → view), decide (view → evictions, pure) and commit
// (evictions → places in the ledger, requests in the log).
//
// Any number of replicas may run. All follow the log; the one that the ledger elects runs cycles. A cycle:
//
//  1. reads the last sequence of the decisions and waits until everything up to it, and the
//     facts of every kind the policy needs, have been applied;
//  2. decides;
//  3. keeps the places of the replacements in the ledger, a few at a time, and appends the requests.
//
// So a new leader knows every request that was in the log when it began. If a deposed leader's last append arrives
// after that, both requests for a pod carry the same token and binders act on one.
package descheduler
