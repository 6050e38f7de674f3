// Package attempt defines one attempt at a pod: its offer, the choice of a node and what that rests on, what extenders
// and plugins have answered, and the verdict that it ends with if it fits nowhere. An attempt is in one Phase; Queues
// holds all attempts of a shard, and alone moves them from phase to phase.
//
// Start reading at Queues.
package attempt
