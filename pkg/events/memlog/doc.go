// Package memlog implements the log, the snapshots and the bus of package events in memory: for tests, for
// simulation and for any use that needs the semantics without a server.
//
// It passes the contract suite in eventstest, as package jetstream does, and starts no goroutine: the append itself
// wakes a waiting reader, and a bus message is handled on the goroutine that published it. With a single driving
// goroutine everything is deterministic.
//
// Faults of the real log are switches here: LoseTail (power loss), LoseNextAnswer (a connection that breaks at the
// wrong moment), and Options.Keep (retention).
//
// Start reading at Log.
package memlog
