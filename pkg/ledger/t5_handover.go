package ledger

import "maps"

// PodFacts is what Finish asks of a member's view of the API.
type PodFacts interface {
	// PodFact says what the applied facts show of a pod: whether it is known, whether it
	// is bound (to any node), and if so a resourceVersion at which it is.
	PodFact(podUID string) (boundRV uint64, bound, known bool)
	// PodProgress is the applied progress of pods; 0 while it is undefined.
	PodProgress() uint64
}

// DeviceFacts is what Finish asks besides about reservations with devices. To facts without it
// they stay.
type DeviceFacts interface {
	PodFacts
	// ClaimFact says what the applied facts show of a claim to devices; the zero value if it is
	// not known.
	ClaimFact(namespace, name string) ClaimFact
	// ClaimProgress is the applied progress of claims to devices; 0 while it is undefined.
	ClaimProgress() uint64
}

// ClaimFact is one claim to devices as the facts show it.
type ClaimFact struct {
	UID string
	RV  uint64
	// Allocated: it has its devices. Protected: it has the finalizer that goes before.
	Allocated, Protected bool
}

// SettledClaims says whether the facts show that nothing more is written for a reservation to the
// claims that it gives devices, and the resourceVersion of claims from which on they do.
//
// Binders write a claim twice. First it is protected, at the version that the decision used, and
// only then it gets its devices, at the version which that write made. (At once if it was protected
// before.) So it is over when the claim has devices, whoever's; when it has moved and is not
// protected, which only a fence or its end makes it; and when it is gone. Nothing is written to a claim
// whose UID is not in the ledger yet (NameClaim).
func SettledClaims(e Entry, facts DeviceFacts) (rv uint64, settled bool) {
	progress := facts.ClaimProgress()
	for _, p := range e.Devices {
		if len(p.Allocation) == 0 || p.Unmade() {
			continue // nothing is taken, and it does no harm late
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

// Finish is T5 (hand-over): it drops the reservations the API itself now stands for, and
// raises the document's high-water to the facts that show it, so that no member can use the
// node before it has applied those facts. It returns the document and whether it changed.
// Carry the result out with PlaceBatch, as a rider, or with Replace.
//
// Dropped are reservations of pods that are
//   - bound: high-water becomes at least the resourceVersion of that fact;
//   - deleted: high-water becomes at least the applied progress. Deleted means that the
//     view does not know the UID although it has applied everything up to PodRV; before
//     that, the pod may simply not have arrived yet.
//
// One that gives claims devices stays, besides, until its claims are settled (SettledClaims): the
// high-water of claims becomes at least what shows that, so that no member gives a device away
// because it has not heard of either.
//
// Keeper pins lose the dependents of which the same is true, and go with the last of them.
// So do the claims on victims that are gone, or have ended if facts are ClaimFacts. All else
// about claims ends with their plan.
//
// A crash before the transaction leaves entries that every member ignores already, after it
// a smaller document.
func Finish(d NodeDoc, facts PodFacts) (NodeDoc, bool) {
	progress := facts.PodProgress()
	if progress == 0 {
		return d, false
	}
	var kept []Entry // nil while everything stays as it is
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
			kept = append(make([]Entry, 0, len(d.Entries)), d.Entries[:i]...)
		}
		if stays && kept != nil {
			kept = append(kept, left)
		}
		hw = max(hw, rv)
	}
	if kept == nil {
		return d, false
	}
	d.Entries, d.HW = kept, raised(raised(maps.Clone(d.HW), KindPod, hw), KindClaim, claims)
	return d, true
}

func handOverClaims(e Entry, facts PodFacts) (rv uint64, stays bool) {
	f, ok := facts.(DeviceFacts)
	if !ok {
		return 0, true
	}
	rv, settled := SettledClaims(e, f)
	return rv, !settled
}

// handOver is what is left of an entry, if anything, and the resourceVersion that a document
// without the rest must have as its high-water.
func handOver(e Entry, facts PodFacts, progress uint64) (left Entry, rv uint64, stays bool) {
	switch e.Role {
	case RoleReservation:
		rv, done := finishedPod(e.PodUID, e.PodRV, facts, progress)
		return e, rv, !done
	case RoleKeeper:
		return unpin(e, facts, progress)
	case RoleVictim:
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

// finishedPod says whether the facts stand for a pod that was decided on at podRV, and the
// resourceVersion at which they do.
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
