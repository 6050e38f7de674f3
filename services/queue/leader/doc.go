// Package leader competes for the leadership of the queue and does the leader's work: it keeps the log of facts equal
// to the cluster, and stores snapshots of the facts. It offers no pods itself: it puts the core into the lead through
// the port Decider.
//
// Start reading at Candidate.Run, then serveTerm and round.
//
//   - Candidate campaigns, leads and resigns, one session of the ledger at a time.
//   - round is one life of the watches, and the only code that writes facts.
//   - logTail waits until this replica has applied the log to its end, and watches that it stays there.
//   - snapshots stores the applied facts, so that a new reader need not read the whole log.
//
// # The order of a term
//
//  1. The election gives the replica a term. Terms are revisions of the ledger, so they grow while the ledger lives.
//  2. The ledger is tied to the cluster (identity.BindCluster). A ledger of another cluster ends the replica.
//  3. The end of the ledger's history is read, and from then on this leader records the history.
//  4. Rounds follow one another until the term ends. Between two rounds the leader confirms its term with the ledger.
//  5. The core leads from the first moment at which a round's epoch has ended and this replica has applied its end:
//     before that, no node is usable, so no pod could be placed.
//  6. Whatever ends the term, the core steps down first and the replica resigns afterwards, so that two replicas never
//     offer by intention. Even if they did, the ledger would let only one reservation of a pod through.
//
// # The order of a round
//
//  1. settle: the state has reached the end of the log, or it cannot, and the round will publish everything.
//  2. generation.Controller.Ensure: the ledger's generation can be relied upon, or the next one is open.
//  3. The epoch is computed: later than any in the log, and later than the facts that the generation has voided.
//  4. The writer opens the epoch and then appends what the watches deliver: first the differences between the lists
//     and the log, then the end of the epoch, then changes as they happen.
//
// A round ends with the first error of any of its goroutines: the log has diverged, a fact cannot be decoded, the log
// cannot be followed, Kubernetes has gone back, or a member has closed the ledger. The next round starts at step 1, and
// repairs whatever has happened. There is no other repair.
//
// # What a crash leaves
//
// A crash before the epoch opens leaves nothing. A crash inside an epoch leaves an open epoch, in which no reader has
// progress until another round opens and ends a later one. A crash after the epoch's end leaves a log that is correct
// and only becomes stale. A leader that is alive and cut off from the ledger may append until the next leader has
// opened its epoch; from then on each append fails, because it names the record behind which it must be stored.
package leader
