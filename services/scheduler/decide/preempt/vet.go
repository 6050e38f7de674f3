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
	// id is the ID of the open question; 0 for none.
	id uint64
	// answered: opinion is the extenders' opinion of the node, or err explains why there is none.
	answered bool
	opinion  placement.Opinion
	err      error
	// unstorable is why the store does not accept the promotion of the place; empty if it does.
	unstorable string
}

// vetPlace asks the extenders that filter whether a pod may have the place that is held for it, and gives the place
// up if not; lookOpen if it may. If an extender does not answer, it is asked again until holdPatience ends: pods
// were evicted for the place.
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

// refusedBy explains why a pod may not have its place.
func refusedBy(o placement.Opinion) string {
	if len(o.Reasons) == 0 {
		return "an extender turns it down"
	}
	return "an extender turns it down: " + o.Reasons[0]
}

// prepared inspects a hold whose bind plugins prepare; lookOpen if they have finished.
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

// drain makes plugins take back the work that this shard will not complete.
func (rc *reconciler) drain() {
	for _, uid := range slices.Sorted(maps.Keys(rc.holds.held)) {
		h := rc.holds.held[uid]
		if p, promoting := rc.slot.InFlight().(*promotion); promoting && p.hold == h {
			continue
		}
		rc.performing.Undo(h.deal, false)
	}
}

// noPlace is the reason for giving up a place that this shard's plugins do not know.
const noPlace = "the scheduler whose plugins prepared the bind is gone"
