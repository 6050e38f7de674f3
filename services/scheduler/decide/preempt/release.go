package preempt

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// release is the T8 of a place that was kept for a pod which has been placed elsewhere. It drops the placeholder,
// and the claim on the moved pod unless that is being evicted.
type release struct {
	by   *reconciler
	plan string
}

func (r *release) Kind() string { return "T8" }

func (r *release) Done(int64) { r.by.budgets.Reread() }

// TooLarge does nothing: the binders sweep what is left.
func (r *release) TooLarge(string) {}

// Undone tries again: the documents have changed.
func (r *release) Undone(_ txns.Outcome) {
	rc := r.by
	rc.releases = append(rc.releases, r.plan)
}

// releaseUnfit notes, when a pod has been placed, that one of the places kept for it will not be needed: the first
// one whose moved pod is leaving. (While that pod stays, the new pod is no replacement but an additional one.) One
// placement releases one place at most, since it replaces one pod.
func (rc *reconciler) releaseUnfit(a *attempt.Attempt) {
	for _, plan := range a.UnfitPlaces {
		_, e, ok := rc.shard.Ledger.Plans().Owner(plan)
		if !ok || e.Role != ledger.RoleMove || slices.Contains(rc.releases, plan) {
			continue
		}
		if _, victim, claimed := rc.shard.Ledger.Plans().Victim(e.PodUID); claimed {
			if fate, _ := rc.shard.View.TxnFacts().VictimFate(victim.PodUID, victim.PodRV); fate == txns.Staying {
				continue
			}
		}
		rc.releases = append(rc.releases, plan)
		return
	}
}

// releaseOne sends T8 for a place that no pod will need; true if it has been sent. Places that have been taken over
// or released in the meantime are skipped.
func (rc *reconciler) releaseOne() bool {
	for len(rc.releases) > 0 {
		plan := rc.releases[0]
		rc.releases = rc.releases[1:]
		if _, e, ok := rc.shard.Ledger.Plans().Owner(plan); !ok || e.Role != ledger.RoleMove {
			continue
		}
		// If it cannot be sent, the binders release it after a while.
		if rc.sendAbort(&release{by: rc, plan: plan}, rc.abortOf(plan), "") == nil {
			return true
		}
	}
	return false
}
