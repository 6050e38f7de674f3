// Package events holds WHAT HAPPENED: the facts the queue saw in Kubernetes and the
// decisions and outcomes of every service, as an ordered, durable, replayable log.
//
// Start reading at Fact and Decision (the two things that can be written), then Log
// (how they are stored), then Follower (how a service reads them and what it may
// conclude from where it stands).
//
// Promises of the log, all of them checked by the contract suite in eventstest:
//
//   - A stream is one totally ordered sequence. Sequences start at 1 and have no gaps
//     but at the old end, where retention cuts.
//   - Append with an expected last sequence is atomic: all messages of one call or none,
//     with consecutive sequences. And it fences: a writer that has been deposed, or
//     whose acknowledged tail was lost, is told so (ErrWrongSequence) and writes nothing.
//   - Delivery is at least once and in order; a reader that is asked to continue behind
//     the retention edge, or sees a jump, gets ErrGap and must bootstrap again.
//
// What the log may do: lose an acknowledged tail on power loss, redeliver. It is a view
// and a history, never the truth: the API server is the truth about the cluster, the
// ledger about what is promised (see pkg/ledger).
//
// The Bus is a different thing: messages that may be lost, repeated and reordered without
// harm (work offers, requests for work). Nothing may depend on their arrival.
package events
