// Package commit carries out the queue's decisions: it writes facts to the log and snapshots next to it, sends offers
// on the bus, records in the ledger which member should hold which partition, and exports metrics and spans.
//
// Start reading at Writer. The log is the only thing the queue writes that other services rely on. It is fenced by
// the stream's last record, so that only a writer whose view of the log's end is right can append. Everything else
// may be lost without harm.
package commit
