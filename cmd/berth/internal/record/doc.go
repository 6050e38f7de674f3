// Package record writes the history that package audit replays: every revision of the ledger,
// every version of every pod, node and namespace, and marks that say what of the one came
// before what of the other.
//
// It only reads. It follows the ledger first and lists the API server after that, so that the
// reservation of every bind it sees is part of the history too. What it could not see, because
// a watch broke for longer than the API server remembers, it finds by listing again and marks
// as missed. The file is bounded; when it is full, the history ends and says so.
//
// Start reading at Recorder.Run.
package record
