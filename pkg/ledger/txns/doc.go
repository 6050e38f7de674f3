// Package txns has the ledger's transactions: pure functions from documents to documents, and from documents to a Txn.
// docs/ledger.md has the tables.
//
// Each transaction has a file of its own, t1_place.go to t16_collect.go, whose comments list what it compares, what it
// puts, and what a crash before and after it leaves. (T11 is in package registry, T13 in roster.) PlaceBatch is the
// one that matters most; Nominate, Promote and Displace follow for pods that need room. The rest of the package is
// shared by several of them: place.go, pin.go and claim.go add one entry to a document, change.go combines documents
// of all kinds into one Txn, and t1_losers.go explains a Txn that lost. facts.go says what the functions need of a
// member's view of the API. sweep.go decides what a binder does about documents on which no member works any more.
//
// A caller reads the documents from its replica.View, and builds the Txn. The store carries it out as a whole or not at
// all. If a compare has lost, the answer has the current values: Classify finds out whether this very transaction
// was carried out before (its answer was lost), and which placements may be sent again.
//
// No function here has a clock, does I/O, or is random: the same arguments make the same Txn, byte for byte, so that a
// transaction whose outcome is unknown can be sent again as it is.
//
// The functions return copies and leave their arguments unchanged. An error of type *RefusedError means that nothing
// has happened, and that the caller decides again on what it knows at that time.
package txns
