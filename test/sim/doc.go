// Package sim runs the whole control plane from one seed, single-threaded, in virtual time: the decision cores of two
// queue replicas, three scheduler shards, two binders and in some seeds two deschedulers as they are in production,
// with an in-memory log, the ledger's in-memory twin, a model of the API server, and the faults that can occur
// between them. After every step it checks the invariants.
//
// Each step is drawn at random: a message arrives once, twice or never; a process reads on in one of its streams,
// crashes, pauses for longer than its lease, or restarts; a call is carried out, or not, or later, and its sender
// gets an answer, or none. After a number of steps the faults end, and within a bound of virtual time every request
// must be fulfilled.
//
// The protocol's guards are also removed one at a time (mutants). A mutant that no check detects shows a gap in the
// checks.
//
// docs/simulation.md lists faults, invariants and mutants. A failure prints the line that replays it.
//
// Start reading at Run, then world (the processes and stores), network (the fates of a call), oracle (the invariants)
// and mutants.
package sim
