package placement

import (
	"time"
)

// Queued holds what the order of the queue depends on.
type Queued struct {
	Priority int32
	// Since is when the pod was last put into the queue.
	Since time.Time
	UID   string
}

// Less defines the order in which pods are tried (PrioritySort): higher priority first, then the longer wait,
// then the UID so that the order is total. Source: plugins/queuesort, which does not compare UIDs.
func Less(a, b Queued) bool {
	if a.Priority != b.Priority {
		return a.Priority > b.Priority
	}
	if !a.Since.Equal(b.Since) {
		return a.Since.Before(b.Since)
	}
	return a.UID < b.UID
}
