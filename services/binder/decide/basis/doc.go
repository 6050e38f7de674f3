// Package basis holds what all parts of the binder's core share: the limits, what is known of the cluster and the
// ledger, the present time, and the operations under way.
//
// Only the core changes what is known; the parts read it, and emit effects through it.
//
// Start reading at Base.
package basis
