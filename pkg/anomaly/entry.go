package anomaly

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Entry returns the state of an entry of the ledger that has existed since then, with the limit for its kind: minutes
// for a reservation that a binder should resolve, more for one that waits for volumes, devices or victims. A keeper
// has no limit: it may exist for as long as placements rely on it.
func Entry(doc ledger.NodeDoc, e ledger.Entry, since time.Time) TimedState {
	w := TimedState{
		Pod: e.Namespace + "/" + e.Name, Where: e.Role.String() + " " + e.State.String() + " on node " + doc.NodeName,
		Since: since,
	}
	switch {
	case e.Role == ledger.RoleKeeper:
	case e.Role == ledger.RoleReservation && e.State != ledger.Held && !waitsForProvisioning(e):
		w.Limit = overdueReservation
	default:
		w.Limit = overdueWait
	}
	return w
}

// waitsForProvisioning reports whether the binder waits for volumes to be provisioned, or for devices. The binder's
// own deadline distinguishes the same two cases.
func waitsForProvisioning(e ledger.Entry) bool {
	return len(e.Devices) > 0 || slices.ContainsFunc(e.Volumes, func(p ledger.VolumePick) bool { return !p.HasVolume })
}
