// Package intake turns the binder's input streams into typed inputs of its decisions: the facts (through the binder's
// own state.Store), the ledger (through its own watch, on which binds rely), the live binders and the partitions that
// they leave to this one, and the decision log.
//
// Start reading at Reader. Each of its three methods is one goroutine and owns its state. All of them send to one
// bounded channel, so a core that falls behind slows them down and nothing is dropped.
package intake
