package waiting

// Pool is where a pod waits or is worked on. The set is closed.
type Pool string

// These are the pools. Bound and gone pods are in none: the core forgets them.
const (
	// PoolNone is for a pod that is not one of this queue's, is bound or is gone.
	PoolNone Pool = ""
	// PoolGated holds pods that wait for the removal of their scheduling gates.
	PoolGated Pool = "gated"
	// PoolActive holds pods that may be offered at once.
	PoolActive Pool = "active"
	// PoolBackoff holds pods that may be offered when their backoff ends, or earlier if there is nothing else to do.
	PoolBackoff Pool = "backoff"
	// PoolParked holds pods that wait for an event that their rejectors listen to ("unschedulable" in upstream's
	// metrics), and those in quarantine.
	PoolParked Pool = "parked"
	// PoolOffered holds pods that are leased to a shard.
	PoolOffered Pool = "offered"
	// PoolHeld holds pods that have a reservation in the ledger.
	PoolHeld Pool = "held"
	// PoolGrouped holds members of groups for which another member stands; see unit.go.
	PoolGrouped Pool = "grouped"
)

// AllPools lists the pools in the order in which people read them.
var AllPools = []Pool{PoolGated, PoolActive, PoolBackoff, PoolParked, PoolOffered, PoolHeld, PoolGrouped}
