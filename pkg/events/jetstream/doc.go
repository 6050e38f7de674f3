// Package jetstream keeps the log, the snapshots and the bus of package events in NATS 2.12 or later.
// It is the only package that imports the NATS client.
//
// What it relies on, and what it makes of it:
//
//   - A stream per events.Stream, on files, every message in order, bounded by age and size.
//     Nothing is compacted per subject: a reader that skipped a message could take a node's
//     state for newer than it is.
//   - Atomic batches (ADR-50): all messages of a fenced Append or none, one durability
//     boundary for all of them. They have a fixed cost of many milliseconds, so unfenced
//     appends, which need no atomicity, use them only when long.
//   - Nats-Expected-Last-Sequence: the fence.
//   - An ordered consumer per reader. It recreates itself behind our back, so each record is
//     checked against the sequence that must come next, and each new incarnation, as each
//     new connection, against the last record read: a server that lost its tail in a power
//     failure and filled it up again with other messages is noticed (events.ErrGap).
//   - The object store for snapshots, which are larger than a message may be.
//   - Core NATS for the bus.
//
// JetStream acknowledges before it has synced to disk unless the server is told otherwise
// (sync_interval: always). That is the server's configuration; this package only copes.
//
// Start reading at Open, then Append and reader.
package jetstream
