package ledger

import (
	"fmt"
	"slices"
)

// MaxDependents bounds how many placed pods may rely on the pinned pods of one node at a time. Each is dropped as
// soon as it is bound.
const MaxDependents = 512

// Dependent is a placed pod that relies on a pinned one.
type Dependent struct {
	PodUID string
	// PodRV is the dependent's resourceVersion that its decision used, as in its reservation.
	PodRV uint64
	Later string
}

// ClaimedError reports that a pod is, or would become, a victim of two plans, or a victim and a keeper at once.
type ClaimedError struct{ NodeUID, PodUID string }

func (e *ClaimedError) Error() string {
	return fmt.Sprintf("ledger: pod %s on node %s can be a victim of one plan or a dependency of placements, not both",
		e.PodUID, e.NodeUID)
}

// Pin records in the document of a bound pod's node that a placement relies on that pod (required affinity), so
// that no plan claims it as a victim before the dependent is bound. The pin is part of the same transaction as the
// placement. Pin returns a *ClaimedError if the pod is a victim already, and a *DocTooLargeError if the document
// has no room.
func Pin(d NodeDoc, keeper Entry, dependent Dependent) (NodeDoc, error) {
	if dependent.PodUID == "" || dependent.PodRV == 0 {
		return NodeDoc{}, fmt.Errorf("ledger: pin of pod %s: dependent %+v: want a pod UID and a resourceVersion",
			keeper.PodUID, dependent)
	}
	if d.SupersededBy != "" {
		return NodeDoc{}, d.superseded(keeper.PodUID)
	}
	if d.Claimed(keeper.PodUID) {
		return NodeDoc{}, &ClaimedError{NodeUID: d.NodeUID, PodUID: keeper.PodUID}
	}
	at, pinned := -1, 1
	for i := range d.Entries {
		if d.Entries[i].Role != RoleKeeper {
			continue
		}
		pinned += len(d.Entries[i].Dependents)
		if d.Entries[i].PodUID == keeper.PodUID {
			at = i
		}
	}
	if pinned > MaxDependents || at < 0 && len(d.Entries) >= MaxEntries {
		return NodeDoc{}, &DocTooLargeError{NodeUID: d.NodeUID, NodeName: d.NodeName, Entries: len(d.Entries) + 1}
	}
	d = d.copy()
	if at < 0 {
		at = len(d.Entries)
		d.Entries = append(d.Entries, Entry{
			PodUID: keeper.PodUID, Namespace: keeper.Namespace, Name: keeper.Name, Role: RoleKeeper,
		})
	}
	d.Entries[at].Dependents = append(slices.Clip(d.Entries[at].Dependents), dependent)
	if err := d.roomy(); err != nil {
		return NodeDoc{}, err
	}
	return d, nil
}

// Claimed reports whether the pod is claimed as a victim.
func (d NodeDoc) Claimed(podUID string) bool { return d.anyOf(RoleVictim, podUID) }

// pinned reports whether a placement relies on the pod.
func (d NodeDoc) pinned(podUID string) bool { return d.anyOf(RoleKeeper, podUID) }

// unpin drops the dependents that are bound or gone. It returns the resourceVersion that the high-water must reach,
// the pin without those dependents, and whether the pin has any dependents left.
func unpin(e Entry, facts PodFacts, progress uint64) (left Entry, rv uint64, kept bool) {
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
