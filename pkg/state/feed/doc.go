// Package feed follows the log of facts once for a whole process. It folds the facts into one state.Store, and hands
// each service of the process immutable snapshots with the changes that led to them. The services share every object.
//
// Start reading at Feed.Follow and Step. The log is read from the first reader's arrival to the last one's departure.
// Guarantees to each reader:
//
//   - The first step is a Reset. After it each step follows from the one before: its Changes lead from that snapshot
//     to this one.
//   - A reader that is slow holds up neither the feed nor other readers. Steps that wait for it become one. When it is
//     behind by more than a million changes, they are replaced by one Reset to the newest snapshot.
//   - The barrier of its snapshots (state.Position) is the log's last sequence, read after the reader called Follow and
//     again after each Reset. A snapshot ahead of that is of a history that the log has lost, and is not delivered.
//     Progress thus stays undefined until every fact that existed then has been applied.
//
// Package follow reads the log for a feed; its guarantees about gaps, lost tails, epochs and holes hold here too.
package feed
