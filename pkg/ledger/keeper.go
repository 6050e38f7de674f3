package ledger

// Dependent is a placed pod that relies on a pinned one.
type Dependent struct {
	PodUID string
	// PodRV is the dependent's resourceVersion that its decision used, as in its reservation.
	PodRV uint64
	Later string
}

// Claimed reports whether the pod is claimed as a victim.
func (d NodeDoc) Claimed(podUID string) bool { return d.anyOf(RoleVictim, podUID) }

// Pinned reports whether a placement relies on the pod.
func (d NodeDoc) Pinned(podUID string) bool { return d.anyOf(RoleKeeper, podUID) }
