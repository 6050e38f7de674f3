package ledger

import "time"

// Owner names the holder of a pod partition: the value of own/<partition>. The key is attached to the member's
// lease. Its create revision is the epoch, which every transaction of that member about the partition's pods
// compares.
type Owner struct {
	// Member is the id of the holder.
	Member string
	// Incarnation is for a ledger that was restored from a backup; no member sets it so far.
	Incarnation uint64
	// Progress is the holder's applied progress when it last wrote the key, for human readers; no member sets it so
	// far.
	Progress uint64
}

// Member is a live process: the value of member/<role>/<id>, on the member's lease.
type Member struct {
	ID, Role string
	// Address is where the member serves HTTP, as host:port; empty when it serves none.
	Address string
	// Started is a time by the member's own wall clock (in milliseconds), for human readers.
	Started time.Time
	// Version is that of the software.
	Version string
}
