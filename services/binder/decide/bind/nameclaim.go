package bind

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/binder/decide/effect"
)

// A claim for resources of the pod is created before its UID is in the ledger, and given devices after that.
//
// Order, and what a crash before each step leaves behind: the claim is created (before: nothing) → T14 writes its UID
// and resourceVersion into the entry (before: a claim without devices, which the next binder finds by its name, and
// which is deleted with the pod) → the claim is written like any other (reservation.bind).

// nameClaim writes the created claim into the entry.
func (r *reservation) nameClaim(b *Reservations, made ledger.DevicePick) {
	r.tries-- // no Binding has been posted
	d, ok := b.documents.Get(r.nodeUID)
	if !ok || !r.live(b) {
		r.advance(b)
		return
	}
	next, err := txns.NameClaim(d, r.key.Pod, r.key.Token, made)
	r.replace(b, next, err, naming)
}

// nameAnswered continues: with the bind, or with another try if another transaction came first.
func (r *reservation) nameAnswered(b *Reservations, in effect.Transacted) {
	if r.outcome(b, in, naming) {
		r.advance(b)
	}
}
