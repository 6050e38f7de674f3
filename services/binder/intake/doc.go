// Package intake turns the binder's input streams into typed inputs of its decisions: the facts (through the feed
// that the services of a process share), the ledger (through a watch, on which binds rely), the live binders and the
// partitions that they leave to this one, and the decision log.
//
// Start reading at Reader. Facts, Ledger and Decisions each run until their context ends, and own their state; the
// first two read in one goroutine and fold in another. All of them send to one bounded channel, so a core that falls
// behind slows them down and nothing is dropped.
//
// The three streams are independent, and the core must not rely on their order. Within one of them the order is kept:
//
//   - Facts: each step of the feed becomes one FactsChanged with an immutable snapshot. After a Reset any pod may have
//     changed.
//   - Ledger: each batch becomes one LedgerChanged, followed by PartitionsChanged if members have come or gone. The
//     assignment of partitions is a function of the live members (membership.Assign), so that all binders that see
//     the same members agree on it.
//   - Decisions: records from the end of the log at start on, each once unless the log loses some (see cursor). They
//     are hints: a binder that misses all of them still binds and fences everything, from the ledger and the facts.
//
// An error of the facts or of the ledger ends the binder. An error of the decision log is retried for ever, and a
// record that cannot be decoded is logged and skipped.
package intake
