package advice

import (
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/step"
)

// A pod that plugins are asked to bind is bound by them once its reservation is Committed: no process takes the
// reservation back without a fence, and binders fence it only if the plugins have failed or their time has run out.
// Nothing is recorded before the plugins have answered. Binders see the outcome in the pod; the shard's record makes
// them act sooner:
//
//	a plugin has bound it ──► placed, by that plugin: binders wait for the facts to show it
//	all leave it          ──► placed: binders bind
//	one has failed        ──► failed, on that node: binders take the place back
//
// If the shard dies before it records an answer, binders take the place back when the time has run out.

// StartBind makes plugins bind the pod that they have agreed on.
func (pl *Plugins) StartBind(d *attempt.PluginBinding, revision int64) {
	d.Revision = revision
	pl.bindable[d.Attempt.Offer.Pod.UID] = d
	pl.binding[d.ID] = d
	pl.perform(d, step.ActBind)
}

// bindEnded applies the plugins' answer about a bind. If the place has been taken back in the meantime, the part
// that took it back records that.
func (pl *Plugins) bindEnded(p step.PluginResult) {
	d, known := pl.binding[p.ID]
	delete(pl.binding, p.ID)
	if !known || d.Ended {
		return
	}
	uid := d.Attempt.Offer.Pod.UID
	if p.Err != nil {
		d.Ended = true
		delete(pl.bindable, uid)
		pl.record.FailedOn(d.Attempt, p.Err.Error(), d.NodeUID, d.Node)
		return
	}
	pl.record.PlacedBy(d.Attempt, d.Revision, p.By)
	pl.checkBound(uid)
}
