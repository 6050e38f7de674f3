// Package events records what happened: the facts that the queue saw in Kubernetes and the decisions and outcomes
// of every service, as an ordered, durable, replayable log.
//
// Start reading at Fact and Decision (the two things that can be written), then package eventlog (how they are
// stored). What a decision records about itself is in package evidence, the messages that are not kept in package
// work. How a service reads the facts, and what it may conclude from its position, is in package state/follow.
//
// The way of a fact: the leading queue builds a Fact of a watch event, EncodeFact makes a message of it (the object
// unchanged as data, everything else in the header), the log stores what was at hand together as a frame (package
// frame), with the sequence for which the fenced append is meant, and a reader gets the record, checks its subject
// (DecodeFact) and applies it to its state.
//
// The messages are a stored format. A field may be added, and is zero in old records; the meaning of a field, a
// word of an Op or of a kind, and a number in eventspb never change. Records of kinds that a version does not know
// are readable for it, and ignored, because services of two versions run at the same time during an upgrade.
// testdata contains a recorded message of each shape (golden_test.go).
//
// Guarantees of the log, all of them checked by the contract suite in eventstest:
//
//   - A stream is one totally ordered sequence. Sequences start at 1 and have no gaps except at the old end, where
//     retention deletes records. The records of a frame share one, and are delivered together.
//   - Append with an expected last sequence is atomic: it stores all messages of one call or none, with consecutive
//     sequences. It is also a fence: a writer that has been deposed, or whose acknowledged tail was lost, gets
//     eventlog.ErrWrongSequence and writes nothing.
//   - Delivery is at least once and in order. A reader that asks to continue before the retention edge, or sees a
//     jump, gets ErrGap and must bootstrap again.
//
// The log may lose an acknowledged tail on power loss, and redeliver. It is a view and a history, never the
// authority: the API server is authoritative for the cluster, the ledger for what is promised (see pkg/ledger).
//
// The Bus is separate from the log: its messages may be lost, repeated and reordered without harm (work offers,
// requests for work). Nothing may depend on their arrival.
package events
