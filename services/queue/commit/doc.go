// Package commit carries out the queue's decisions: it writes facts to the log and snapshots next to it, sends offers
// on the bus, records in the ledger which member should hold which partition, and exports metrics and spans.
//
// Start reading at Writer. The log is the only thing the queue writes that other services rely on. It is fenced by
// the stream's last record, so that only a writer whose view of the log's end is right can append. Everything else
// may be lost without harm.
//
//   - Writer appends the facts of one round, on a goroutine of the leader. Base and the functions next to it find the
//     end of the log that a round builds on.
//   - Reporter carries out the effects of a step, on the deciding goroutine. It never blocks: it publishes offers
//     directly, because the bus does not wait, and hands everything slower to a Recorder or a Mover.
//   - Recorder appends the queue's own decisions to the decisions log, and Mover writes requests for partitions to the
//     ledger, each on its own goroutine and with a bounded queue. What does not fit is dropped and logged.
//   - evictedPods pairs evicted pods with their replacements, to link their traces.
//
// # Why an append is safe
//
// Each append names the record behind which it must be stored, by sequence and subject. If another writer has appended
// in between, or the log has lost a tail, the log refuses. If no answer arrives, the batch may or may not be stored.
// The writer then reads the log behind its own last record and compares: the batch is there, or nothing is there and
// it is sent again, or something else is there and the round ends with DivergedError. A repetition alone would not do:
// it is refused both when the batch is stored and when another writer has appended.
//
// A crash between an append and its answer leaves a log whose end the next leader reads before it writes.
package commit
