// Package generation makes sure, before each round of a leader, that the ledger's generation is one that members can
// rely upon.
//
// Members rely on what the ledger has shown them: reservations that they have decided by, and high-waters that say up
// to where the facts must have come. If etcd comes back empty or from a backup, or if Kubernetes does, these promises
// are missing, obsolete, or ahead of anything that the facts will show for hours. The leader then begins the next
// generation of the ledger, which voids them all. docs/ledger.md describes generations as the members see them, and
// identity.Generation has the transactions.
//
// Start reading at Controller.Ensure. It gathers evidence, lets the pure decide.JudgeGeneration decide, and carries the
// verdict out:
//
//   - The generation stays. This is the usual case and costs a few reads.
//   - The ledger has none yet: the first one begins, with the ledger's content as it is.
//   - The next one begins: the generation is closed, everything promised is deleted, the grace period passes, what was
//     still in flight at the closing is deleted too, and the generation opens with high-waters that Kubernetes has
//     reached.
//
// The evidence is: the identity and the revision of the store; the generation and the floor in it; the end of the
// ledger's history in the log, which a ledger that went back contradicts; and the resourceVersions of Kubernetes, of
// the facts and of the ledger. The order of reading matters. The view of the ledger must be at least as new as the
// generation that was read, because its high-waters are compared. Kubernetes is read last, because another leader may
// still publish facts, and facts that are later than the reading would look like a restored backup.
//
// A crash at any point leaves a closed generation or the one before. A closed generation permits nothing, and the next
// leader, which finds it closed, begins another one. Two leaders at once are harmless: each transaction compares the
// generation's revision, and the leader that loses starts again (errOvertaken).
package generation
