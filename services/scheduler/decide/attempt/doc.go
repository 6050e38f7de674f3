// Package attempt defines one attempt at a pod: its offer, the choice of a node and what that choice depends on, the
// answers of extenders and plugins, and the verdict that it ends with if it fits nowhere. An attempt is in exactly
// one Phase. Queues holds all attempts of a shard, and is the only type that moves them between phases: its table of
// transitions lists the legal moves, and the first illegal one makes the core's step fail. Between two steps no
// attempt is in the phase deciding.
//
// For one goroutine. Start reading at Queues.
package attempt
