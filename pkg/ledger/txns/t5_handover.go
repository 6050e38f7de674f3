package txns

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// PodFacts is the part of a member's view of the API that Finish needs.
type PodFacts interface {
	// PodFact returns what the applied facts show of a pod: whether it is known, whether it is bound (to any node),
	// and if so a resourceVersion at which it is.
	PodFact(podUID string) (boundRV uint64, bound, known bool)
	// PodProgress is the applied progress of pods; 0 while it is undefined.
	PodProgress() uint64
}

// DeviceFacts are the additional facts that Finish needs for reservations with devices. With facts that do not
// implement it, these reservations stay.
type DeviceFacts interface {
	PodFacts
	// ClaimFact returns what the applied facts show of a claim to devices; the zero value if it is not known.
	ClaimFact(namespace, name string) DeviceClaimFact
	// ClaimProgress is the applied progress of claims to devices; 0 while it is undefined.
	ClaimProgress() uint64
}

// DeviceClaimFact is one claim to devices as the facts show it.
type DeviceClaimFact struct {
	UID string
	RV  uint64
	// Allocated: the claim has its devices. Protected: it has the finalizer that is set before them.
	Allocated, Protected bool
}

// SettledClaims reports whether the facts show that nothing more is written for a reservation to the claims that it
// gives devices, and the resourceVersion of claims from which on they show it.
//
// Binders write a claim twice. First they protect it, at the version that the decision used. Only then they write
// its devices, at the version that the first write made. (If it was protected before, they write the devices at
// once.) So the writing has ended when the claim has devices, from any writer; when the claim has moved and is not
// protected, which only a fence or the claim's end can cause; and when the claim is gone. Nothing is written to a
// claim whose UID is not in the ledger yet (NameClaim).
func SettledClaims(e ledger.Entry, facts DeviceFacts) (rv uint64, settled bool) {
	progress := facts.ClaimProgress()
	for _, p := range e.Devices {
		if len(p.Allocation) == 0 || p.Unmade() {
			continue // no device is taken, and a late write does no harm
		}
		f := facts.ClaimFact(e.Namespace, p.Claim)
		switch {
		case f.UID != p.ClaimUID:
			if progress == 0 || progress < p.ClaimRV {
				return 0, false
			}
			rv = max(rv, progress)
		case f.RV > p.ClaimRV && (f.Allocated || !f.Protected):
			rv = max(rv, f.RV)
		default:
			return 0, false
		}
	}
	return rv, true
}

// Finish is T5 (hand-over): it drops the reservations that the API server's objects stand for by now, and raises
// the document's high-water to the facts that show this, so that no member can use the node before it has applied
// those facts. It returns the document and whether it changed. Carry the result out with PlaceBatch, together with
// placements, or with Replace.
//
// It drops reservations of pods that are
//   - bound: the high-water becomes at least the resourceVersion of that fact;
//   - deleted: the high-water becomes at least the applied progress. Deleted means that the view does not know the
//     UID although it has applied everything up to PodRV; before that, the pod may simply not have arrived yet.
//
// A reservation that gives claims devices also stays until its claims are settled (SettledClaims). The high-water
// of claims then becomes at least the version that shows that, so that no member gives a device away because it
// knows of neither the reservation nor the claim's devices.
//
// Keeper pins lose the dependents for which the same holds, and are dropped with the last of them. Claims on
// victims that are gone, or have ended, are dropped as well if facts are ClaimFacts. Everything else about claims
// ends with their plan.
//
// A crash before the transaction leaves entries that every member ignores already, after it a smaller document.
func Finish(d ledger.NodeDoc, facts PodFacts) (ledger.NodeDoc, bool) {
	progress := facts.PodProgress()
	if progress == 0 {
		return d, false
	}
	var kept []ledger.Entry // nil while everything stays as it is
	var hw, claims uint64
	for i, e := range d.Entries {
		left, rv, stays := handOver(e, facts, progress)
		if !stays && len(e.Devices) > 0 {
			var claimRV uint64
			claimRV, stays = handOverClaims(e, facts)
			claims = max(claims, claimRV)
			if stays {
				rv = 0
			}
		}
		if kept == nil && (!stays || len(left.Dependents) != len(e.Dependents)) {
			kept = append(make([]ledger.Entry, 0, len(d.Entries)), d.Entries[:i]...)
		}
		if stays && kept != nil {
			kept = append(kept, left)
		}
		hw = max(hw, rv)
	}
	if kept == nil {
		return d, false
	}
	d.Entries, d.HW = kept, ledger.Raised(ledger.Raised(maps.Clone(d.HW), ledger.KindPod, hw), ledger.KindClaim, claims)
	return d, true
}

func handOverClaims(e ledger.Entry, facts PodFacts) (rv uint64, stays bool) {
	f, ok := facts.(DeviceFacts)
	if !ok {
		return 0, true
	}
	rv, settled := SettledClaims(e, f)
	return rv, !settled
}

// handOver returns what is left of an entry, if anything, and the resourceVersion that a document without the rest
// must have as its high-water.
func handOver(e ledger.Entry, facts PodFacts, progress uint64) (left ledger.Entry, rv uint64, stays bool) {
	switch e.Role {
	case ledger.RoleReservation:
		rv, done := finishedPod(e.PodUID, e.PodRV, facts, progress)
		return e, rv, !done
	case ledger.RoleKeeper:
		return unpin(e, facts, progress)
	case ledger.RoleVictim:
		if claims, ok := facts.(ClaimFacts); ok {
			fate, rv := claims.VictimFate(e.PodUID, e.PodRV)
			return e, rv, fate != Left || e.PodRV == 0
		}
		_, _, known := facts.PodFact(e.PodUID)
		return e, progress, known || e.PodRV == 0 || progress < e.PodRV
	default:
		return e, 0, true
	}
}

// finishedPod reports whether the facts stand for a pod that was decided on at podRV, and the resourceVersion at
// which they do.
func finishedPod(podUID string, podRV uint64, facts PodFacts, progress uint64) (rv uint64, done bool) {
	boundRV, bound, known := facts.PodFact(podUID)
	switch {
	case known && bound:
		return boundRV, true
	case !known && podRV > 0 && progress >= podRV:
		return progress, true
	}
	return 0, false
}
