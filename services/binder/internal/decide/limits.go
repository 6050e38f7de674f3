package decide

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// Limits are the core's times and bounds.
type Limits struct {
	// BindDeadline is how long a Committed entry may stay unbound, unchanged in the
	// binder's own eyes, before it is fenced (T_bind of the protocol).
	BindDeadline time.Duration
	// Idle is how long a document (or an entry in Fencing) must be unchanged before the
	// sweep touches it.
	Idle time.Duration
	// Losses is how many lost resourceVersions end in a fence instead of a refresh.
	Losses int
	// Retry paces the repetition of requests with an unknown outcome. Jitter must be 0:
	// the core is deterministic.
	Retry wait.Backoff
	// EvictionReads is how many failed reads of a pod end an eviction as refused.
	EvictionReads int
	// EvictionMemory is how long the outcome of an eviction is remembered against
	// redelivery of the decision.
	EvictionMemory time.Duration
	// ForgetEvery is how often the core goes through what it remembers of pods for what can no
	// longer matter: with many pods that wait, a pass over all of them costs more than it frees.
	ForgetEvery time.Duration
	// Foreign bounds, each, the hints, conditions and evictions remembered for partitions
	// of other members; past it new ones are dropped, they are hints.
	Foreign int
}

// DefaultLimits are the protocol's figures.
func DefaultLimits() Limits {
	return Limits{
		BindDeadline:   30 * time.Second,
		Idle:           5 * time.Second,
		Losses:         3,
		Retry:          wait.Backoff{Duration: 50 * time.Millisecond, Factor: 2, Steps: 30, Cap: 5 * time.Second},
		EvictionReads:  5,
		EvictionMemory: 10 * time.Minute,
		ForgetEvery:    10 * time.Second,
		Foreign:        1 << 16,
	}
}

// nextTry is the wait before the next try, and the backoff after it.
func nextTry(b wait.Backoff) (time.Duration, wait.Backoff) {
	d := b.Step()
	return d, b
}
