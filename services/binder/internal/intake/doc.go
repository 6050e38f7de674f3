// Package intake turns what the binder hears into typed inputs of its decisions: the facts
// (through the binder's own state.Store), the ledger (through its own watch, which is what
// a bind relies on), the live binders and the partitions that gives this one, and the
// decision log.
//
// Start reading at Room. Each of its three methods is one goroutine and owns its state;
// all of them send to one bounded channel, so a core that falls behind slows them down and
// nothing is dropped.
package intake
