// Package commit carries out what the binder decided: it is the only place in Berth that
// writes to Kubernetes, and beside that it commits the binder's ledger transactions and
// appends to the decision log.
//
// Start reading at Room. Effects with an answer are carried out by bounded groups of
// workers, one group ("lane") each for binds, for other changes of Kubernetes and for the
// ledger, so that a slow one does not hold up the others. Each such effect is answered
// exactly once, and each runs under a named timeout of its own: a call without an answer
// is an answer too (Unknown).
//
// Nothing is repeated in here. Whether a request may be sent again is a decision; the
// client's own silent repetition on Retry-After is switched off (see transport).
package commit
