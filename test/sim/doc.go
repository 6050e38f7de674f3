// Package sim runs the whole control plane from one seed, single-threaded, in virtual time:
// the decision cores of two queue replicas, three scheduler shards, two binders and in some
// seeds two deschedulers as they
// are in production, with an in-memory log, the ledger's in-memory twin, a model of the API
// server, and everything that can go wrong between them. After every step it looks for a
// broken promise.
//
// What one step does is drawn at random: a message arrives, twice or never; a process reads
// on in one of its streams, dies, stops for longer than its lease, comes back; a call is
// carried out, or not, or later, and its sender is told, or not. After a number of steps the
// faults end, and within a bound of virtual time everything that was asked for must come
// true.
//
// The protocol's guards are also taken away one at a time (mutants): what the checks do not
// find then, they do not check.
//
// docs/simulation.md lists faults, invariants and mutants. A failure prints the line that
// replays it.
//
// Start reading at Run, then world (what there is), network (what can happen to a call),
// oracle (what must hold) and mutants.
package sim
