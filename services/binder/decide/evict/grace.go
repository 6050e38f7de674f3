package evict

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
)

// pending reports whether a victim's eviction is a request that may still be carried out by another controller, as any
// binder can see it in the claim and in the facts, and how much longer than other victims it may therefore stay.
func pending(v *Evictor, r *removal) (longer time.Duration, is bool) {
	if r.claim.State != ledger.Evicting {
		return 0, false
	}
	switch seen := annotationsOf(v, r); {
	case seen.inProgress:
		return forever, true
	case seen.only:
		return v.Limits.RequestFor, true
	}
	return 0, false
}

// forever is longer than any wait for a pod: as long as a controller shows that it is carrying a request out, the
// request does not end.
const forever = 1 << 20 * time.Second

// LongestGrace returns the longest time that holds of a document may take in addition to Overdue: the grace period of
// the pods that leave for them, what plugins may take, or how long another controller may take to make a pod leave
// whose eviction was requested.
func (v *Evictor) LongestGrace(d ledger.NodeDoc) time.Duration {
	var longest int64
	for _, hold := range d.Entries {
		if hold.Plan == "" || hold.Role == ledger.RoleVictim {
			continue
		}
		if txns.IsPrepared(hold.Plan) {
			longest = max(longest, int64(txns.PreparedFor/time.Second))
		}
		for _, r := range v.removalsOf(hold.Plan) {
			if longer, pending := pending(v, r); pending {
				longest = max(longest, int64(longer/time.Second))
			}
			p, known, _ := v.Pod(r.claim.PodUID, r.claim.PodRV)
			if !known || !p.Deleting {
				continue
			}
			if grace := p.Object().DeletionGracePeriodSeconds; grace != nil {
				longest = max(longest, *grace)
			}
		}
	}
	return time.Duration(longest) * time.Second
}
