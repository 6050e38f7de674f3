// Package history keeps past states of the ledger. A Recorder writes every change of the ledger, with its revision,
// to the log's stream LEDGER, and a Cursor reads the ledger back as it was at any revision since. No member decides
// by it; it is for replay and for human readers (docs/decisions/0015).
//
// The stream contains:
//
//   - changes, in the order of revisions, some 250 ms of them per record; each record states after which revision
//     it begins and through which revision it is complete;
//   - pictures, that is snapshots of all keys, in parts, at the beginning and at intervals, so that the old end of
//     the stream can be truncated; a reader begins with the first picture available.
//
// Invariants: there is one writer, fenced by the expected last sequence of the stream. A missing change is
// detected, because the next record begins after a revision that was not reached (GapError); the gap ends with the
// next picture. A revision may be recorded twice and counts once.
//
// Start reading at Recorder.Run and Cursor.To.
package history
