// Package answer reads the answers to `berth explain` and `berth status` about a pod or a node from a shard's state.
// It changes nothing; a Shard is for the goroutine that owns the state.
//
// Unlike a decision, an answer is evaluated from scratch with all rules on all nodes (placement.Profile.Explain),
// which takes long on a large cluster. The shard decides nothing meanwhile, so that it is meant for people and not
// for polling.
package answer
