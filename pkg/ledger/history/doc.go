// Package history keeps what the ledger was: a Recorder writes every change of it to the log's
// stream LEDGER, with its revision, and a Cursor reads the ledger back as it was at any revision
// since. Nobody decides by it; it is for replay and for people (docs/decisions/0015).
//
// What is written:
//
//   - changes, in the order of revisions, some 250 ms of them to a record; each record says after
//     which revision it begins and through which one everything has been told;
//   - pictures of all keys, in parts, at the beginning and again and again, so that the stream's
//     old end can be cut off; a reader begins with the first picture there is.
//
// Invariants: there is one writer, fenced by the expected last sequence of the stream; a change
// that is missing shows, because the next record begins after a revision that was not reached
// (GapError), and ends with the next picture. A revision may be told twice and counts once.
//
// Start reading at Recorder.Run and Cursor.To.
package history
