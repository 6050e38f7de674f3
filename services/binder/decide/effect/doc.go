// Package effect defines the inputs of the binder's core, the effects that it requests, and their answers.
//
// An Effect with an OpID is answered exactly once, by an Input with the same OpID. Ops keeps the effects in flight
// and the pieces of work (Machine) that wait for their answers; a piece of work has at most one effect in flight.
//
// Start reading at Effect, then Input, then Ops.
package effect
