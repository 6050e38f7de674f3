package evict

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/binder/decide/basis"
)

// planOwner returns the pod that has the place of a plan that must be carried out.
func planOwner(b *basis.Base, id string) (ledger.NodeDoc, ledger.Entry, bool) {
	if r, ok := b.Ledger.Plans().Record(id); ledger.IsRecorded(id) && (!ok || r.State != ledger.PlanReady) {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	return b.Ledger.Plans().Owner(id)
}

// mayStillPlace reports whether the facts still show a pod that waits for its place. If they do not show the pod at
// all, they may be late.
func mayStillPlace(b *basis.Base, owner ledger.Entry) bool {
	p, known, _ := b.Pod(owner.PodUID, owner.PodRV)
	if owner.Role == ledger.RoleMove {
		return known
	}
	return known && p.NodeName == "" && !p.Deleting && !p.Terminal
}

// preemptor returns the pod for which a victim is evicted, if that pod exists: a placeholder's replacement does not
// exist yet.
func preemptor(b *basis.Base, id string) (*state.Pod, ledger.NodeDoc, bool) {
	doc, owner, ok := b.Ledger.Plans().Owner(id)
	if !ok || owner.Role != ledger.RoleReservation {
		return nil, doc, false
	}
	p, known, _ := b.Pod(owner.PodUID, owner.PodRV)
	return p, doc, known
}

// PlanToken returns the token from which a plan's id was derived.
func PlanToken(id string) string { return id[max(0, len(id)-len(ledger.Token(0).String())):] }
