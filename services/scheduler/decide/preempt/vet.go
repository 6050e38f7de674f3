package preempt

import (
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// vetPlace asks the extenders that filter whether a pod may have the place that is held for it, and gives the place
// up if not; inspectionOpen if it may. They are asked once the victims have gone: only then can they decide, and
// upstream asks them then because it begins a new cycle. If an extender does not answer, it is asked again until
// holdPatience ends: pods were evicted for the place. Such questions count towards the limit of all open questions.
func (rc *reconciler) vetPlace(s holdState, profile *placement.Profile, node *state.Node) inspection {
	v := &s.vetting
	switch {
	case txns.IsPrepared(s.plan) || !profile.FilteredByExtenders(s.pod):
		return inspectionOpen
	case v.id != 0:
		return inspectionWaits
	case v.answered && v.err != nil && rc.shard.Now.Sub(s.lastProgress) > holdPatience:
		return rc.giveUp(s, withdrawal{reason: v.err.Error()})
	case v.answered && v.err == nil && v.opinion.Rejected:
		return rc.giveUp(s, withdrawal{reason: refusedBy(v.opinion), failed: true})
	case v.answered && v.err == nil:
		return inspectionOpen
	case rc.consults.Full():
		return inspectionRepeats
	}
	*v = vetting{id: rc.consults.AskAboutPlace(s.plan, s.pod, node)}
	return inspectionWaits
}

// refusedBy explains why a pod may not have its place.
func refusedBy(o placement.Opinion) string {
	if len(o.Reasons) == 0 {
		return "an extender turns it down"
	}
	return "an extender turns it down: " + o.Reasons[0]
}
