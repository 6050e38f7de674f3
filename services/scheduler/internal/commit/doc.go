// Package commit carries out what the decision core asks for: reservation transactions
// (one at a time), decisions on the log (in order), requests for work (hints).
//
// A transaction whose answer is lost is sent again unchanged until an answer comes: both
// copies compare the same revisions, so at most one applies. Decisions appended twice are
// harmless: whoever reads them acts on the ledger and the facts.
package commit
