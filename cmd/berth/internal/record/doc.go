// Package record writes the history that package audit replays: every revision of the ledger, every version of every
// pod, node, namespace and other object that the audit needs, and marks that relate the order of revisions to that of
// versions.
//
// It only reads. It follows the ledger first and lists the API server after that, so that the reservation of every
// bind it sees is part of the history as well. Changes that it could not see, because a watch was broken for longer
// than the API server keeps history, it finds by listing again and marks as missed. The file is bounded; when it is
// full, the history ends with a record of that.
//
// # Goroutines
//
//	ledgerSource.run   follows the ledger and makes a record of each batch
//	source.run         one for each kind of object: lists, then watches
//	Recorder.record    waits for the first lists, then writes a mark every half second, and ends the history
//	Recorder.write     the only one that writes to the file; all others send it records over a channel
//
// Records of one source are in its order; the channel orders them arbitrarily with those of other sources, which is
// why marks exist. A source remembers, under its lock, the newest version that it has recorded of each object, so that
// a list shows what a broken watch has missed, and finish can wait until everything up to the end is in the file.
//
// # The end
//
// When the context ends (an operator interrupts the recording), the history is completed rather than cut off: one more
// mark, one more list of each kind, a wait until the watches have delivered all of it, then the ledger in the same
// way, and the End record. Objects come before the ledger, so that the reservation of the last bind is in the history.
// A crash leaves a file without an End, at most flushEvery old, which the audit can read.
//
// Start reading at Recorder.Run.
package record
