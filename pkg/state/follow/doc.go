// Package follow reads the log of facts for one member: from the newest snapshot, then
// record by record, and from the beginning again whenever what it reads does not follow
// from what it has read.
//
// Start reading at Follower.Run and Batch. What comes out is a recipe for a state.Store:
// a Reset batch says how to build it, every other batch is for Store.Apply. Promises:
//
//   - The first batch is a Reset. After a Reset, facts come in order, each exactly once,
//     beginning behind the snapshot's sequence.
//   - Barrier is the stream's last sequence as read after the snapshot was, so that
//     progress stays undefined until everything that was there at start is applied.
//   - A gap, a tail the log lost, and an epoch whose begin was not seen all end in another
//     Reset: what was applied may differ from what the log now says.
//   - A snapshot that stands for a history the log no longer has is not used, nor one that cannot be read.
//   - A record that cannot be read is a hole: the store behind it has no progress, and reading goes on
//     until facts are told anew, which ends in another Reset. Nothing that stands in the log ends Run.
package follow
