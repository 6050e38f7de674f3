package ledger

import "time"

// Owner says who holds a pod partition: the value of own/<partition>. The key hangs on the
// member's lease; its create revision is the epoch that every transaction of that member
// about the partition's pods compares.
type Owner struct {
	// Member is the id of the holder.
	Member string
	// Incarnation grows when the ledger was restored from a backup.
	Incarnation uint64
	// Progress is the holder's applied progress when it last wrote the key, for people.
	Progress uint64
}

// Member is a live process: the value of member/<role>/<id>, on the member's lease.
type Member struct {
	ID, Role string
	// Address is where the member serves HTTP, host:port; empty when it serves none.
	Address string
	// Started is the member's own wall clock (milliseconds), for people.
	Started time.Time
	// Version of the software.
	Version string
}
