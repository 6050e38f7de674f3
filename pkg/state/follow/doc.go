// Package follow reads the log of facts for one member: from the newest snapshot, then record by record, and from
// the beginning again whenever a record does not follow from what it has read.
//
// Start reading at Follower.Run and Batch. The output describes how to maintain a state.Store: a Reset batch
// contains how to build it, every other batch is for Store.Apply. Guarantees:
//
//   - The first batch is a Reset. After a Reset, facts come in order, each exactly once, beginning after the
//     snapshot's sequence.
//   - Barrier is the stream's last sequence, read after the snapshot was, so that progress stays undefined until
//     everything that existed at the start has been applied.
//   - A gap, a tail that the log lost, and an epoch whose begin was not seen all lead to another Reset: the applied
//     facts may differ from what the log contains now.
//   - A snapshot that stands for a history the log no longer has is not used, nor is one that cannot be read.
//   - A record that cannot be read is a hole: the store after it has no progress, and reading continues until facts
//     are published again from scratch, which leads to another Reset. No content of the log ends Run.
package follow
