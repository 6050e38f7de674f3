// Package invariant states what must never be observed in the ledger: of one document (CheckDoc), of all documents at
// one revision (CheckUnique, CheckClaims), and of two successive revisions of one document (CheckSuccessor and its
// kin). The names of invariants, such as S4, are those of docs/ledger.md.
//
// It shares no code with the transactions, except that they refuse entries that CheckEntry finds malformed.
package invariant
