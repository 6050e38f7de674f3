package advice

import (
	"github.com/berth-scheduler/berth/services/scheduler/internal/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/internal/step"
)

// A pod that plugins are asked to bind is bound by them when its reservation is Committed: no process takes
// that without a fence, and binders fence it only when the plugins have failed, or have had their time. Until they
// have answered nothing is recorded. Binders see the outcome at the pod; what the shard records makes them act sooner:
//
//	a plugin has bound it ──► placed, by that plugin: binders wait for the facts to show it
//	all leave it          ──► placed: binders bind
//	one has failed        ──► failed, on that node: binders take the place back
//
// A shard that dies meanwhile says nothing, and binders take the place back when the time is over.

// LetBind has plugins bind the pod of a deal.
func (pl *Plugins) LetBind(d *attempt.Deal, revision int64) {
	d.Revision = revision
	pl.bindable[d.Attempt.Offer.Pod.UID] = d
	pl.binding[d.ID] = d
	pl.perform(d, step.ActBind)
}

// bindEnded applies what plugins have done about a bind. A place that has been taken back meanwhile is recorded by
// the part that took it back.
func (pl *Plugins) bindEnded(p step.Performed) {
	d, known := pl.binding[p.ID]
	delete(pl.binding, p.ID)
	if !known || d.Over {
		return
	}
	uid := d.Attempt.Offer.Pod.UID
	if p.Err != nil {
		d.Over = true
		delete(pl.bindable, uid)
		pl.record.FailedOn(d.Attempt, p.Err.Error(), d.NodeUID, d.Node)
		return
	}
	pl.record.PlacedBy(d.Attempt, d.Revision, p.By)
	pl.seeBound(uid)
}
