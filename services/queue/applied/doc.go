// Package applied hands the newest state that the deciding goroutine has applied to the goroutines of the leader,
// which wait for it: the round that must begin at the end of the log, the snapshots, and the answers to people.
//
// One goroutine publishes, any number read. A published snapshot is immutable, so a reader never sees a half-applied
// batch, and it may keep the snapshot for as long as it likes: the deciding goroutine never waits for a reader.
//
// Start reading at Facts.
package applied
