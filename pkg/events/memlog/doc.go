// Package memlog keeps the log, the snapshots and the bus of package events in memory: for
// tests, for simulation and for anything that wants the semantics without a server.
//
// It passes the contract suite in eventstest, as package jetstream does, and starts no
// goroutine: a waiting reader is woken by the append itself, and a bus message is handled on
// the goroutine that published it. Under one driving goroutine everything is deterministic.
//
// Faults that the real log has are switches here: LoseTail (power loss), LoseNextAnswer (a
// broken connection at the wrong moment), and Options.Keep (retention).
//
// Start reading at Log.
package memlog
