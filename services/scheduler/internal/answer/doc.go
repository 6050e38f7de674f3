// Package answer reads from a shard's state what `berth explain` and `berth status` ask about a pod or a node. It
// changes nothing; a Shard is for the goroutine that owns the state.
package answer
