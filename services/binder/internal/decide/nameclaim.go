package decide

import "github.com/berth-scheduler/berth/pkg/ledger"

// A claim for resources of the pod is created before its UID is in the ledger, and given devices after that.
//
// Order, and what a crash before each step leaves behind: the claim is created (before: nothing) → T14 writes its UID
// and resourceVersion into the entry (before: a claim without devices, which the next binder finds by its name, and
// which is deleted with the pod) → the claim is written like any other (reservation.bind).

// nameClaim writes the created claim into the entry.
func (r *reservation) nameClaim(c *Core, made ledger.DevicePick) {
	r.tries-- // no Binding has been posted
	d, ok := c.docs[r.nodeUID]
	if !ok || !r.live(c) {
		r.advance(c)
		return
	}
	next, err := ledger.NameClaim(d.doc, r.key.pod, r.key.token, made)
	r.replace(c, next, err, naming)
}

// nameAnswered continues: with the bind, or with another try if another transaction came first.
func (r *reservation) nameAnswered(c *Core, in Transacted) {
	if r.outcome(c, in, naming) {
		r.advance(c)
	}
}
