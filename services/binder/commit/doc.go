// Package commit carries out the binder's decisions. It is the only place in Berth that writes to Kubernetes; it also
// commits the binder's ledger transactions and appends to the decision log.
//
// Start reading at Executor, which hands each kind of effect to the part that carries it out: bindings (with volumes
// and claims), fences, evictions, conditions, gates, transactions, publisher (decisions) and reporter (events).
//
// Effects with an answer are carried out by bounded groups of workers, called lanes: for binds, for several kinds of
// other changes of Kubernetes, and for the ledger, so that slow calls of one lane do not delay the others. Each such
// effect is answered exactly once, and each has a named timeout: a call without a response is answered as well
// (Unknown).
//
// Nothing is retried in here. Whether a request may be sent again is a decision. The client's own silent retries on
// Retry-After are disabled (see transport).
package commit
