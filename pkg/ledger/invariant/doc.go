// Package invariant states what must never be observed in the ledger: of one document (CheckDoc), of all documents at
// one revision (CheckUnique, CheckClaims), and of two successive revisions of one document (CheckSuccessor and its
// kin). The names of invariants, such as S4, are those of docs/ledger.md.
//
// The tests of the transactions and of the services, ledgertest and the simulation check the revisions that they
// produce. In production only CheckEntry runs, before an entry is placed.
//
// The checks compare documents only. They know neither facts nor time, so they allow everything that some correct
// member could have done: that an entry may leave with a raised high-water, for example, does not prove that its pod
// was bound. pkg/audit, which knows both, checks the rest.
//
// A check returns all violations that it finds, in the order of the document, and nil if there are none. It never
// stops at the first one, because the second often explains the first.
//
// It shares no code with the transactions, except that they refuse entries that CheckEntry finds malformed.
package invariant
