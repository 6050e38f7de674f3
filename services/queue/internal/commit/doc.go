// Package commit carries out what the queue decided: facts go into the log, snapshots
// beside it, offers onto the bus, who should hold partitions into the ledger, numbers and
// spans into telemetry.
//
// Start reading at Writer. The log is the only thing the queue writes that others rely on;
// it is fenced by the stream's last record, so that at most one writer's idea of the
// log's end is ever right. Everything else may be lost without harm.
package commit
