// Package descheduler finds pods that should not be where they are, by a DeschedulerPolicy,
// and asks the binders to evict them. It never talks to Kubernetes.
//
// Start reading at Descheduler.Run, then internal/decide.Cycle. Package policy reads the
// policy file. The rooms: internal/intake (facts and decisions → view), internal/decide
// (view → evictions, pure), internal/commit (evictions → places in the ledger, asks in the log).
//
// Any number of replicas may run. All follow the log; the one that the ledger elects runs
// cycles. A cycle:
//
//  1. reads the last sequence of the decisions and waits until everything up to it, and the
//     facts of every kind the policy looks at, have been taken in;
//  2. decides;
//  3. keeps the places of the replacements in the ledger, a few at a time, and writes the asks.
//
// So a new leader knows every ask that was in the log when it began. If a deposed leader's
// last append lands after that, both asks of a pod carry the same token and binders act on
// one.
package descheduler
