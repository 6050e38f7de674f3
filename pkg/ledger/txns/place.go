package txns

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/invariant"
)

// Place adds entries to a document. A new reservation starts Held or Committed, carries the resourceVersion and the
// token that its bind will need, and is the pod's only one on the node. Place returns a *DocTooLargeError when the
// entries do not fit, counting also how much they and the existing entries may still grow. It returns an
// *EntryTooLargeError when an entry would fit no document.
func Place(d ledger.NodeDoc, entries ...ledger.Entry) (ledger.NodeDoc, error) {
	d.Entries = append(make([]ledger.Entry, 0, len(d.Entries)+len(entries)), d.Entries...)
	for i := range entries {
		if err := placeable(d, entries[i]); err != nil {
			return ledger.NodeDoc{}, err
		}
		if err := entries[i].CheckSize(); err != nil {
			return ledger.NodeDoc{}, err
		}
		d.Entries = append(d.Entries, entries[i])
	}
	if err := d.CheckRoom(); err != nil {
		return ledger.NodeDoc{}, err
	}
	return d, nil
}

func placeable(d ledger.NodeDoc, e ledger.Entry) error {
	if d.SupersededBy != "" {
		return superseded(d, e.PodUID)
	}
	if v := invariant.CheckEntry(d, e); len(v) > 0 {
		return v[0]
	}
	if e.Role == ledger.RoleVictim && (d.Pinned(e.PodUID) || d.Claimed(e.PodUID)) {
		return &ClaimedError{NodeUID: d.NodeUID, PodUID: e.PodUID}
	}
	if e.Role != ledger.RoleReservation {
		return nil
	}
	if !ledger.State(0).MayBecome(e.State) {
		return &TransitionError{NodeUID: d.NodeUID, PodUID: e.PodUID, To: e.State}
	}
	if old, ok := d.Find(e.PodUID); ok {
		return fmt.Errorf("ledger: node %s already holds a reservation of pod %s (token %s)", d.NodeUID, e.PodUID, old.Token)
	}
	return nil
}

// superseded refuses to add a pod to the document of a node whose name now stands for another node.
func superseded(d ledger.NodeDoc, podUID string) error {
	return &RefusedError{Step: "placement", NodeUID: d.NodeUID, PodUID: podUID,
		Reason: "node name " + d.NodeName + " stands for another node, " + d.SupersededBy}
}
