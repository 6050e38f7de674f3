package decide

import (
	"github.com/berth-scheduler/berth/services/scheduler/internal/claims"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// A pod that plugins are asked to bind is bound by them when its reservation is Committed: nobody can take that without
// a fence, and binders fence it only when the plugins have failed, or have had their time. Until they have answered
// nothing is told. What comes of it binders see at the pod; what the shard says has them act sooner:
//
//	a plugin has bound it ──► placed, by that plugin: binders wait for the facts to show it
//	all leave it          ──► placed: binders bind
//	one has failed        ──► failed, on that node: binders take the place back
//
// A shard that dies meanwhile says nothing, and binders take the place back when the time is over.

// delegation is what a deal has to do with plugins that bind.
type delegation struct {
	// asked: plugins are to be asked to bind. delegated: the reservation leaves it to them.
	asked, delegated bool
	// revision is where the reservation became Committed.
	revision int64
}

// delegate tells whether a reservation that gives the pod's claims something is left to plugins to bind: not if binders
// have to do something about the claims first.
func (d *deal) delegate(v claims.Supply) bool {
	d.delegated = d.asked && v.NoWork()
	return d.delegated
}

// letBind has plugins bind the pod of a deal.
func (c *Core) letBind(d *deal, revision int64) {
	d.revision = revision
	c.performing.bindable[d.attempt.offer.Pod.UID] = d
	c.performing.binding[d.id] = d
	c.perform(d, step.ActBind)
}

// bindEnded takes in what plugins have done about a bind. A place that has been taken back meanwhile is told of by
// whoever did.
func (c *Core) bindEnded(p step.Performed) {
	d, known := c.performing.binding[p.ID]
	delete(c.performing.binding, p.ID)
	if !known || d.over {
		return
	}
	uid := d.attempt.offer.Pod.UID
	if p.Err != nil {
		d.over = true
		delete(c.performing.bindable, uid)
		c.tellFailedOn(d.attempt, p.Err.Error(), d.nodeUID, d.node)
		return
	}
	c.tellPlacedBy(d.attempt, d.revision, p.By)
	c.seeBound(uid)
}
