package preempt

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// vetting is a question to extenders about the place that is held for a pod.
type vetting struct {
	// id is that of the question that is out; 0 for none.
	id uint64
	// answered: opinion is what they think of the node, or err why there is none.
	answered bool
	opinion  placement.Opinion
	err      error
	// unstorable is why the store does not take the promotion of the place; empty if that is not so.
	unstorable string
}

// vetPlace asks the extenders that filter whether a pod may have the place that is held for it, and gives the place up
// if not; lookOpen if the pod may have it. An extender that does not answer is asked again until patience ends: pods
// were evicted for it.
func (rc *reconciler) vetPlace(s standing, profile *placement.Profile, node *state.Node) look {
	v := &s.vetting
	switch {
	case txns.IsPrepared(s.plan) || !profile.FilteredByExtenders(s.pod):
		return lookOpen
	case v.id != 0:
		return lookLater
	case v.answered && v.err != nil && rc.shard.Now.Sub(s.moved) > holdPatience:
		return rc.giveUp(s, end{reason: v.err.Error()})
	case v.answered && v.err == nil && v.opinion.Rejected:
		return rc.giveUp(s, end{reason: refusedBy(v.opinion), failed: true})
	case v.answered && v.err == nil:
		return lookOpen
	case rc.consults.Full():
		return lookAgain
	}
	*v = vetting{id: rc.consults.AskAboutPlace(s.plan, s.pod, node)}
	return lookLater
}

// refusedBy says why a pod may not have its place.
func refusedBy(o placement.Opinion) string {
	if len(o.Reasons) == 0 {
		return "an extender turns it down"
	}
	return "an extender turns it down: " + o.Reasons[0]
}

// prepared is a look at a hold that plugins have something to do with; lookOpen if that is done.
func (rc *reconciler) prepared(s standing) look {
	switch d := s.deal; {
	case d == nil || d.Over && d.Outcome == nil:
		return rc.giveUp(s, end{reason: noPlace})
	case d.Outcome == nil && rc.shard.Now.Sub(s.since) > txns.PreparedFor:
		return rc.giveUp(s, end{reason: fmt.Sprintf("plugins have not come to an end within %v", txns.PreparedFor)})
	case d.Outcome == nil:
		return lookLater
	case d.Outcome.Failed():
		return rc.giveUp(s, end{reason: "a plugin will not have the pod bound there"})
	}
	return lookOpen
}

// drain has plugins take back what this shard will not see to its end.
func (rc *reconciler) drain() {
	for _, uid := range slices.Sorted(maps.Keys(rc.holds.held)) {
		h := rc.holds.held[uid]
		if p, promoting := rc.slot.InFlight().(*promotion); promoting && p.hold == h {
			continue
		}
		rc.performing.Undo(h.deal, false)
	}
}

// noPlace is the reason that a place is given up of which this shard's plugins know nothing.
const noPlace = "the scheduler whose plugins prepared the bind is gone"
