// Package memlog implements the log, the snapshots and the bus of package events in memory: for tests, for
// simulation and for any use that needs the semantics without a server.
//
// It passes the contract suite in eventstest, as package jetstream does, and starts no goroutine: the append itself
// wakes a waiting reader, and a bus message is handled on the goroutine that published it. With a single driving
// goroutine everything is deterministic.
//
// Faults of the real log are switches here: LoseTail (power loss), LoseNextAnswer (a connection that breaks at the
// wrong moment), RefuseAbove (a lowered limit), Trim and Options.Keep (retention). Without Options.Frames it has one
// record for each sequence, as a stream that was created before there were frames.
//
// All streams and snapshots are guarded by one lock. A record is copied when it is appended and shared by all
// readers; a snapshot is copied both ways. Nothing is on disk: a Log that is gone has lost everything, so a test
// that restarts services keeps the Log.
//
// Example: a test makes New(Options{}) and gives it to two services as their log. When both have read the newest
// records, it drops them with LoseTail, and both readers return eventlog.ErrGap.
//
// Start reading at Log.
package memlog
