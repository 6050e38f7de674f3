// Package replica holds a member's copy of the ledger: a View of all its documents, kept up to date by a watch.
//
// # Parts
//
// A View holds the documents of nodes (documents), which only it changes, and six parts for everything else: Names
// (which node a node name stands for), Plans (records, holds, victims), Budgets and Exclusives (documents that several
// nodes share), Terms (the registry and its guards) and Roster (members and partitions). Names, Plans, Budgets and
// Exclusives read the documents of nodes; no part reads another part.
//
// # How a value gets in
//
// Follow reads the whole ledger and then watches it. The owner of the View passes each Batch to View.Fold, which
// applies it and returns the Changes. Two ways lead past the watch, and make a member see a commit before its watch
// delivers it:
//
//   - LearnOwn: what this member's own transaction has put;
//   - Learn: what a lost compare has brought back.
//
// All three end in the same step: of two values of one key, the one with the higher mod revision wins. So a value that
// was learned is ignored when the watch delivers it again, and the order of the three ways does not matter. Some kinds
// of keys are not learned, because each stands for all earlier changes that are related to it, and only the watch
// delivers those (see View.Learn).
//
// For example, a shard commits a reservation on node n at revision 100, while its watch has delivered revision 97.
// LearnOwn stores n's document at revision 100, and Entry shows the reservation; Revision is still 97. The watch then
// delivers 98 to 100, of which 100 changes nothing but Revision. If the watch breaks and its history is compacted, a
// list read at revision 98 replaces the View, and carryOver keeps the document of revision 100.
//
// # What changed
//
// A document is decoded by difference from the revision that the View has: its stored form is kept for as long as it
// has entries, and entries with the same bytes are taken over. The transactions of this process carry the documents
// that they were built from, so LearnOwn decodes nothing. Changes lists the entries that differ (DocChange), and the
// pods of those; the entries that stayed are in no list, and no index is changed because of them.
//
// # Invariants
//
//   - The View is complete up to Revision, which never decreases except when a history is replayed (Batch.Restart).
//   - A value of a later revision than Revision was in the store at that revision; it may have changed since.
//   - A list that is older than the View, or contradicts it, is refused (*ledger.StoreReplacedError): the store was
//     replaced or restored from a backup, and the member must stop.
//   - A value that cannot be decoded stops the member too: if it continued without the value, it might contradict a
//     promise.
//
// Follow runs on its caller's goroutine; a View belongs to one goroutine, and its Clone to another one. Nothing is
// stored: after a crash the next View starts with a list.
//
// Start reading at View.Fold, then View.Learn.
package replica
