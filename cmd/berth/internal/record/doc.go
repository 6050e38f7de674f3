// Package record writes the history that package audit replays: every revision of the ledger, every version of every
// pod, node, namespace and other object that the audit needs, and marks that relate the order of revisions to that of
// versions.
//
// It only reads. It follows the ledger first and lists the API server after that, so that the reservation of every
// bind it sees is part of the history as well. Changes that it could not see, because a watch was broken for longer
// than the API server keeps history, it finds by listing again and marks as missed. The file is bounded; when it is
// full, the history ends with a record of that.
//
// Start reading at Recorder.Run.
package record
