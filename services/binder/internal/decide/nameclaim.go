package decide

import "github.com/berth-scheduler/berth/pkg/ledger"

// A claim that is made for resources of the pod is made before its UID is in the ledger, and given devices
// after that.
//
// Order, and what a crash between each pair leaves behind: the claim is made (before: nothing) → T14, its UID
// and resourceVersion are in the entry (before: a claim without devices, which has a name that the next binder
// finds it by, and which goes with the pod) → the claim is written like any other (reservation.bind).

// nameClaim writes which claim was made into the entry.
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

// nameAnswered goes on: with the bind, or once more if another transaction came first.
func (r *reservation) nameAnswered(c *Core, in Transacted) {
	if r.outcome(c, in, naming) {
		r.advance(c)
	}
}
