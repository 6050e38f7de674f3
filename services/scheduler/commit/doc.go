// Package commit carries out the effects that the decision core requests: reservation transactions (one at a time),
// decisions on the log (in order), requests for work (hints).
//
// A transaction whose answer is lost is sent again unchanged until an answer arrives: all copies compare the same
// revisions, so at most one is applied. Decisions appended twice are harmless: their readers act on the ledger and
// the facts.
package commit
