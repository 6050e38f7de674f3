package decide

import (
	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
	"github.com/berth-scheduler/berth/services/scheduler/decide/crossnode"
	"github.com/berth-scheduler/berth/services/scheduler/decide/gangs"
	"github.com/berth-scheduler/berth/services/scheduler/decide/search"
)

// placeMember decides about one pod of a gang, on the nodes of a domain; nil stands for all nodes. It has the steps of
// placer.place that concern such a pod: it takes no place that is kept for it, and is placed by no extender or plugin.
// It implements gangs.Former.Place.
func (p *placer) placeMember(a *attempt.Attempt, profile *placement.Profile, within *search.Domain) gangs.Placement {
	t := &trial{attempt: a, profile: profile}
	o := p.demands(t)
	if o.is == undecided {
		o = p.findIn(t, within)
	}
	if o.is == undecided && len(t.found.Feasible) == 0 {
		return p.unplaceable(t)
	}
	if o.is == undecided {
		o = p.choose(t)
	}
	if o.is == undecided && !crossnode.Complete(t.needs) {
		return gangs.Placement{Is: gangs.Unregistered, Needs: t.needs}
	}
	if o.is == undecided {
		o = p.supply(t)
	}
	if o.is == undecided {
		o = p.stage(t)
	}
	return gangs.Placement{Is: gangEndings[o.is], Why: o.why}
}

// unplaceable returns the result for a pod of a gang that fits nowhere.
func (p *placer) unplaceable(t *trial) gangs.Placement {
	seed := attempt.Seed(t.attempt.Pod.UID, t.attempt.Offer.Attempt)
	h, held := p.search.FitsOnAvoided(t.profile, t.attempt, seed, t.avoided)
	t.found.Diagnosis = t.found.Diagnosis.Awaiting(h.Plugins)
	r := gangs.Placement{Is: gangs.Rejected, Verdict: p.verdict(t)}
	if held {
		r.Passing = h.Message
	} else if t.volumes.MaybeLater() {
		r.Passing = "devices are still promised to other pods"
	}
	return r
}

// gangEndings are the endings of trials as those of the pods of a gang.
var gangEndings = map[ending]gangs.Ending{
	placed: gangs.Placed, deferred: gangs.Deferred, failed: gangs.Failed, heldBack: gangs.Failed,
	returned: gangs.Returned, rejected: gangs.Rejected, handedOver: gangs.Over,
}

// endings are the endings of gangs as those of trials.
var endings = map[gangs.Ending]ending{
	gangs.Deferred: deferred, gangs.Failed: failed, gangs.Returned: returned, gangs.Over: handedOver,
}

// findIn looks for nodes in a domain; nil stands for all nodes.
func (p *placer) findIn(t *trial, within *search.Domain) outcome {
	if within == nil {
		return p.find(t)
	}
	t.found = p.search.FindIn(t.attempt, t.profile, t.volumes, t.avoided, within)
	switch {
	case t.found.Err != nil:
		return failure(t.found.Err)
	case t.concern.Uncertain:
		return outcome{is: deferred}
	}
	return outcome{}
}

// verdict returns the verdict on a pod of a gang that fits nowhere.
func (p *placer) verdict(t *trial) events.Decision {
	d := p.life.Verdict(t.attempt, p.life.Positions())
	d.Message = t.found.Diagnosis.Message()
	d.Plugins = t.found.Diagnosis.Plugins()
	d.Reasons = t.found.Diagnosis.Reasons()
	d.NodesTotal = int32(t.found.NodesTotal)
	d.Seed = attempt.Seed(t.attempt.Pod.UID, t.attempt.Offer.Attempt)
	d.Evidence = p.record.Evidence(t.attempt, t.profile, t.found, t.behind)
	if d.Evidence != nil {
		d.Evidence.Basis.Unlisted = true // it counted pods of its gang whose choices have no record
	}
	return d
}
