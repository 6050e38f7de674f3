package anomaly

import (
	"slices"
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Entry is an entry of the ledger that has been there since then. A keeper may stand for as
// long as others rely on it.
func Entry(doc ledger.NodeDoc, e ledger.Entry, since time.Time) Waiting {
	w := Waiting{
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

// waitsForProvisioning reports whether the binder waits for volumes to be made, or for devices, as in its own deadline.
func waitsForProvisioning(e ledger.Entry) bool {
	return len(e.Devices) > 0 || slices.ContainsFunc(e.Volumes, func(p ledger.VolumePick) bool { return !p.HasVolume })
}
