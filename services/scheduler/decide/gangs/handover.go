package gangs

import (
	"maps"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
	"github.com/berth-scheduler/berth/pkg/state"
)

// handOvers are the members whose reservations have left the ledger for a reason that the facts do not show yet: each
// seems to wait for a node, and may be bound.
type handOvers struct {
	// until is, by UID, the resourceVersion of pods from which on the facts show the reason. everything is that for all
	// members: of those that left before a list of the ledger, it is not known which they are.
	until      map[string]uint64
	everything uint64
}

// FollowLedger notes the reservations that have left. It is called with each change of the ledger.
func (f *Former) FollowLedger(changes replica.Changes) {
	h := &f.handOvers
	if changes.Reset {
		*h = handOvers{everything: f.Shard.Ledger.HighWater(ledger.KindPod)}
	}
	seen, _ := f.Shard.Store.Position().Progress(events.KindPod)
	maps.DeleteFunc(h.until, func(_ string, rv uint64) bool { return rv <= seen })
	for _, d := range changes.Docs {
		for _, e := range d.Removed {
			if _, stays := d.After.Find(e.PodUID); e.Role == ledger.RoleReservation && !stays {
				f.handedOver(e.PodUID, max(d.After.HW[ledger.KindPod], d.Before.HW[ledger.KindPod]), seen)
			}
		}
	}
}

// handedOver notes a pod that has no reservation any more, unless the facts show why, or that it is in no group.
func (f *Former) handedOver(podUID string, until, seen uint64) {
	if until <= seen {
		return
	}
	if pod, known := f.Shard.View.Pod(podUID); known && pod.PodGroup() == "" {
		return
	}
	if f.handOvers.until == nil {
		f.handOvers.until = map[string]uint64{}
	}
	f.handOvers.until[podUID] = until
}

// MayBeBound reports whether a pod that seems to wait may have been handed over.
func (f *Former) MayBeBound(pods []*state.Pod) bool {
	seen, _ := f.Shard.Store.Position().Progress(events.KindPod)
	if seen < f.handOvers.everything {
		return true
	}
	for _, p := range pods {
		if seen < f.handOvers.until[p.UID] {
			return true
		}
	}
	return false
}
