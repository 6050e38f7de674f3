// Package answer reads the answers to `berth explain` and `berth status` about a pod or a node from a shard's state.
// It changes nothing; a Shard is for the goroutine that owns the state.
package answer
