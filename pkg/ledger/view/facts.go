package view

import (
	"slices"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Facts is the API view: a *state.Store that keeps changing, or Frozen.
type Facts interface {
	Snapshot() *state.Snapshot
	Position() state.Position
}

// Frozen holds the facts of one snapshot.
type Frozen struct{ At *state.Snapshot }

// Snapshot implements Facts.
func (f Frozen) Snapshot() *state.Snapshot { return f.At }

// Position implements Facts.
func (f Frozen) Position() state.Position { return f.At.Position() }

// TxnFacts is the API view in the form in which transactions read it: it implements txns.PodFacts, txns.DeviceFacts
// and txns.ClaimFacts. A progress is 0 while it is undefined.
type TxnFacts struct {
	store    Facts
	snapshot *state.Snapshot
	fates    fates
}

var (
	_ txns.DeviceFacts = (*TxnFacts)(nil)
	_ txns.ClaimFacts  = (*TxnFacts)(nil)
)

// fates records, by resourceVersion, when claimed pods were first missed; with every, it records this for all pods. A
// claim may be read after the end of its pod, so the last pods that left are remembered too.
type fates struct {
	firstMissed map[string]uint64
	every       bool
	// recent and older are when the last pods left that were not claimed.
	recent, older map[string]uint64
}

// maxRecentFates bounds recent, and older.
const maxRecentFates = 4096

// recordUnclaimed records when a pod left that is not claimed.
func (f *fates) recordUnclaimed(podUID string, rv uint64) {
	if f.recent == nil || len(f.recent) >= maxRecentFates {
		f.recent, f.older = map[string]uint64{}, f.recent
	}
	f.recent[podUID] = rv
}

// unclaimed returns when a pod left that was not claimed; false if that is not known.
func (f *fates) unclaimed(podUID string) (rv uint64, known bool) {
	if rv, known = f.recent[podUID]; !known {
		rv, known = f.older[podUID]
	}
	return rv, known
}

// maxFates bounds the memory of when claimed pods were first missed. A pod that is forgotten is missed again at a
// later resourceVersion, which delays the settling of its budget.
const maxFates = 4096

// maxReplayedFates is the same bound after KeepFates.
const maxReplayedFates = 1 << 18

// PodFact returns what the API view shows of a pod.
func (f *TxnFacts) PodFact(podUID string) (boundRV uint64, bound, known bool) {
	p, ok := f.snapshot.Pod(podUID)
	if !ok {
		return 0, false, false
	}
	return p.ResourceVersion, p.NodeName != "", true
}

// ClaimFact returns what the API view shows of a claim to devices.
func (f *TxnFacts) ClaimFact(namespace, name string) txns.DeviceClaimFact {
	return ClaimFact(f.snapshot, namespace, name)
}

// VictimFate returns what the API view shows of a claimed pod. A pod that has
// ended counts as gone.
func (f *TxnFacts) VictimFate(podUID string, podRV uint64) (txns.Fate, uint64) {
	p, known := f.snapshot.Pod(podUID)
	switch {
	case known && p.Terminal:
		return txns.Left, p.ResourceVersion
	case known && p.Deleting:
		return txns.Leaving, p.ResourceVersion
	case known || f.PodProgress() == 0 || f.PodProgress() < podRV:
		return txns.Staying, 0
	}
	if rv, missed := f.fates.firstMissed[podUID]; missed {
		return txns.Left, rv
	}
	rv, known := f.fates.unclaimed(podUID)
	if !known {
		rv = f.PodProgress()
	}
	f.recordGone(podUID, rv)
	return txns.Left, rv
}

// KeepFates makes the view remember when every pod left. A member observes a claim and the end of the claimed pod
// in one order; a reader that looks at both later (a replay) may see them in the other.
func (f *TxnFacts) KeepFates() { f.fates.every = true }

func (f *TxnFacts) recordGone(podUID string, rv uint64) {
	most := maxFates
	if f.fates.every {
		most = maxReplayedFates
	}
	if f.fates.firstMissed == nil || len(f.fates.firstMissed) >= most {
		f.fates.firstMissed = map[string]uint64{}
	}
	f.fates.firstMissed[podUID] = rv
}

// PodProgress returns the applied progress of pods.
func (f *TxnFacts) PodProgress() uint64 { return f.progress(events.KindPod) }

// ClaimProgress returns the applied progress of claims to devices.
func (f *TxnFacts) ClaimProgress() uint64 { return f.progress(events.KindResourceClaim) }

// BudgetProgress returns the applied progress of disruption budgets.
func (f *TxnFacts) BudgetProgress() uint64 { return f.progress(events.KindDisruptionBudget) }

func (f *TxnFacts) progress(kind events.Kind) uint64 {
	rv, ok := f.store.Position().Progress(kind)
	if !ok {
		return 0
	}
	return rv
}

// ClaimFact returns what a snapshot shows of a claim to devices.
func ClaimFact(s *state.Snapshot, namespace, name string) txns.DeviceClaimFact {
	o, claim := claimOf(s, namespace, name)
	if claim == nil {
		return txns.DeviceClaimFact{}
	}
	return txns.DeviceClaimFact{
		UID: o.UID, RV: o.ResourceVersion, Allocated: claim.Status.Allocation != nil,
		Protected: slices.Contains(claim.Finalizers, resourcev1.Finalizer),
	}
}

// Claim returns a claim to devices from a snapshot, for reading only; nil if there is none.
func Claim(s *state.Snapshot, namespace, name string) *resourcev1.ResourceClaim {
	_, claim := claimOf(s, namespace, name)
	return claim
}

func claimOf(s *state.Snapshot, namespace, name string) (*state.Object, *resourcev1.ResourceClaim) {
	o, ok := s.ObjectByName(events.KindResourceClaim, namespace, name)
	if !ok {
		return nil, nil
	}
	claim, _ := o.API.(*resourcev1.ResourceClaim)
	return o, claim
}
