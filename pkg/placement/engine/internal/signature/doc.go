// Package signature writes what rules may read of a pod into a few bytes, so that pods which no rule can
// distinguish have the same signature.
package signature
