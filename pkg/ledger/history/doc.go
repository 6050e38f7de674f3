// Package history keeps past states of the ledger. A Recorder writes every change of the ledger, with its revision,
// to the log's stream LEDGER, and a Cursor reads the ledger back as it was at any revision since. No member decides
// by it; it is for replay and for human readers (docs/decisions/0015).
//
// The stream contains:
//
//   - changes, in the order of revisions, some 250 ms of them per record; each record states after which revision
//     it begins and through which revision it is complete;
//   - snapshots of all keys, in parts, at the beginning and at intervals, so that the old end of
//     the stream can be truncated; a reader begins with the first snapshot available.
//
// Invariants: there is one writer, fenced by the expected last sequence of the stream. A missing change is
// detected, because the next record begins after a revision that was not reached (GapError); the gap ends with the
// next snapshot. A revision may be recorded twice and counts once.
//
// A Recorder runs in the leading queue, on the goroutine that calls Run: it lists the ledger for a snapshot, and
// otherwise watches it. When it starts it reads the last record of the stream, and continues behind the revision that
// is complete there. A crash loses the changes of up to 250 ms, which the next leader takes from the ledger's own
// history, or replaces by a snapshot if the ledger has compacted them.
//
// A Cursor returns batches in the form of replica.Follow, so that a replica.View is replayed like the running one. A
// ledger that was restored from a backup continues the stream with a snapshot of a lower revision (Batch.Restart).
//
// Recorded returns the end of the history. It is evidence of how far the ledger has come, and so whether a ledger that
// is found at a start was restored from a backup (Ending.Contradicts).
//
// Start reading at Recorder.Run and Cursor.To.
package history
