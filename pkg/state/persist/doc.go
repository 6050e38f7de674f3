// Package persist holds the persistent structures in which the state keeps its pods: an Array by number, and an
// Index from hashes to numbers. A version of either never changes once its edit has ended, costs nothing to keep, and
// may be read by any number of goroutines; the next version shares with it all that has not changed.
//
// Start reading at Array.Set.
//
// An Edit names one writer's changes. What an edit has created it changes in place, what an earlier edit has created
// it copies first. So many changes of one edit cost one copy of the path that they share, and no draft is needed from
// which they are written afterwards.
//
// Invariants:
//
//   - A version is a value. A copy of it, taken when its edit has ended, shows the same content for ever.
//   - Edits of one structure are numbered upwards, and only the newest version is changed. A version that is
//     discarded instead of published (a failed edit) leaves no trace.
//   - Nothing is random: the hash is the caller's. Equal hashes are allowed, and the caller decides between them.
//
// Why not a library: decision 0032 has the measurements.
package persist

// Edit numbers the changes of one writer, from 1.
type Edit uint64
