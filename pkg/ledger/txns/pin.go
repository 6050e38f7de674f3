package txns

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// Pin records in the document of a bound pod's node that a placement relies on that pod (required affinity), so
// that no plan claims it as a victim before the dependent is bound. The pin is part of the same transaction as the
// placement. Pin returns a *ClaimedError if the pod is a victim already, and a *DocTooLargeError if the document
// has no room.
func Pin(d ledger.NodeDoc, keeper ledger.Entry, dependent ledger.Dependent) (ledger.NodeDoc, error) {
	if dependent.PodUID == "" || dependent.PodRV == 0 {
		return ledger.NodeDoc{}, fmt.Errorf("ledger: pin of pod %s: dependent %+v: want a pod UID and a resourceVersion",
			keeper.PodUID, dependent)
	}
	if d.SupersededBy != "" {
		return ledger.NodeDoc{}, superseded(d, keeper.PodUID)
	}
	if d.Claimed(keeper.PodUID) {
		return ledger.NodeDoc{}, &ClaimedError{NodeUID: d.NodeUID, PodUID: keeper.PodUID}
	}
	at, pinned := -1, 1
	for i := range d.Entries {
		if d.Entries[i].Role != ledger.RoleKeeper {
			continue
		}
		pinned += len(d.Entries[i].Dependents)
		if d.Entries[i].PodUID == keeper.PodUID {
			at = i
		}
	}
	if pinned > MaxDependents || at < 0 && len(d.Entries) >= ledger.MaxEntries {
		return ledger.NodeDoc{}, &ledger.DocTooLargeError{NodeUID: d.NodeUID, NodeName: d.NodeName,
			Entries: len(d.Entries) + 1}
	}
	d = d.Clone()
	if at < 0 {
		at = len(d.Entries)
		d.Entries = append(d.Entries, ledger.Entry{
			PodUID: keeper.PodUID, Namespace: keeper.Namespace, Name: keeper.Name, Role: ledger.RoleKeeper,
		})
	}
	d.Entries[at].Dependents = append(slices.Clip(d.Entries[at].Dependents), dependent)
	if err := d.CheckRoom(); err != nil {
		return ledger.NodeDoc{}, err
	}
	return d, nil
}

// unpin drops the dependents that are bound or gone. It returns the resourceVersion that the high-water must reach,
// the pin without those dependents, and whether the pin has any dependents left.
func unpin(e ledger.Entry, facts PodFacts, progress uint64) (left ledger.Entry, rv uint64, kept bool) {
	left = e
	left.Dependents = nil
	for _, d := range e.Dependents {
		at, done := finishedPod(d.PodUID, d.PodRV, facts, progress)
		if !done {
			left.Dependents = append(left.Dependents, d)
			continue
		}
		rv = max(rv, at)
	}
	return left, rv, len(left.Dependents) > 0
}

// MaxDependents bounds how many placed pods may rely on the pinned pods of one node at a time. Each is dropped as
// soon as it is bound.
const MaxDependents = 512

// ClaimedError reports that a pod is, or would become, a victim of two plans, or a victim and a keeper at once.
type ClaimedError struct{ NodeUID, PodUID string }

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("ledger: pod %s on node %s can be a victim of one plan or a dependency of placements, not both",
		e.PodUID, e.NodeUID)
}
