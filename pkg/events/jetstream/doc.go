// Package jetstream implements the log, the snapshots and the bus of package events on NATS 2.12 or later. It is
// the only package that imports the NATS client.
//
// It relies on the following features, in these ways:
//
//   - A stream per eventlog.Stream, on files, every message in order, bounded by age and size. Nothing is compacted
//     per subject: a reader that skipped a message could mistake a node's state for a newer one than it is.
//   - The format of each stream is in its metadata (Format): an append is stored as frames (package frame), or as
//     one message for each record. A message that is a frame has the header frame.HeaderFrame; readers read both.
//   - Atomic batches (ADR-50): all messages of a fenced Append or none, and one durability boundary for all of
//     them. They have a fixed cost of many milliseconds, so unfenced appends, which need no atomicity, use them
//     only when long, and a fenced append to a stream of frames only when it needs several.
//   - Nats-Expected-Last-Sequence is the fence.
//   - An ordered consumer per reader. The client recreates it on its own. So each record is checked against the
//     sequence that must come next, and each new incarnation of the consumer, like each new connection, against the
//     last record read. In this way the reader detects a server that lost its tail in a power failure and refilled
//     it with other messages (eventlog.ErrGap).
//   - The object store for snapshots, which are larger than a message may be.
//   - Core NATS for the bus.
//
// JetStream acknowledges before it has synced to disk unless it is configured otherwise (sync_interval: always).
// That is part of the server's configuration; this package only tolerates the consequences.
//
// The outcomes of an append, which callers distinguish: a sequence (stored); eventlog.ErrWrongSequence (the fence
// refused, nothing is stored); eventlog.ErrRefused (one message can never be stored, and nothing of a fenced append
// is); any other error (unknown: all, some or none may be stored, and the caller looks at the log or appends
// again).
//
// Goroutines: Append, Last and About run on the caller's. Next runs on the reader's, while the client delivers
// records to reader.receive on one of its own. Handlers of the bus run on a goroutine of the client per
// subscription.
//
// Start reading at Open, then Append and reader.
package jetstream
