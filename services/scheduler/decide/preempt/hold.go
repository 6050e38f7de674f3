package preempt

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/events/evidence"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/services/scheduler/decide/attempt"
)

// hold is a place that is held for a pod of this shard: the reference to the ledger's entry, and what the shard
// remembers about it. All but the reference may be lost: the next owner of the partition starts with an empty
// memory.
type hold struct {
	// podUID, nodeUID, plan and token identify the entry. A hold with another token or plan is another hold.
	podUID, nodeUID, plan string
	token                 ledger.Token
	// firstSeen is when this shard first saw it; lastProgress is when its plan last changed: a claim was marked or
	// dropped, or a victim began to leave or left. The patience of the reconciler is measured from lastProgress, so
	// that a plan that makes progress is never given up.
	firstSeen, lastProgress time.Time
	// lastRefusal is when an eviction of the plan was last taken back because it failed; zero if none was.
	lastRefusal time.Time
	// attempt and traceParent are those of the offer, if this shard got the offer.
	attempt     int32
	traceParent string
	// remaining are the victims that a plan with a record must still claim.
	remaining []txns.NodeEntry
	yielding  yielding
	// plugins is the agreement of its plugins, nil for none.
	plugins *attempt.PluginBinding
	// lead is the attempt at the lead of the gang for whose member this shard made the hold; nil for any other.
	lead *attempt.Attempt
	// evidence is the record of that choice, and factSequence its position in the facts.
	evidence     *evidence.Evidence
	factSequence uint64
	// begun: a binder has begun to evict for it, or no pod has to be evicted, as of the last inspection. Holds
	// counts those that are not begun, as they limit further plans.
	begun bool
	// awaitsClaims: all victims have gone, but their claims still hold the devices. A change of any claim makes it
	// due.
	awaitsClaims bool
	// vetting is the question to extenders about the place, asked once all victims have gone.
	vetting vetting
}

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

// yielding lists the reservations that must be given back for a plan.
type yielding struct {
	// reserved are the UIDs of their pods, if this shard made the plan: these pods may be bound after all. alone: the
	// plan has no other victims.
	reserved []string
	alone    bool
	// awaited: the pod does not fit before reservations on other nodes are given back.
	awaited bool
}

// isLeaving reports whether a pod is gone, has ended or is being deleted.
func isLeaving(p *state.Pod) bool { return p == nil || p.Deleting || p.Terminal }

// victimsOf returns the claims of a plan in some documents.
func victimsOf(docs []ledger.NodeDoc, plan string) []ledger.Entry {
	var out []ledger.Entry
	for _, d := range docs {
		out = append(out, d.Victims(plan)...)
	}
	return out
}

// podRef returns the reference to an entry's pod.
func podRef(e ledger.Entry) events.PodRef {
	return events.PodRef{UID: e.PodUID, Namespace: e.Namespace, Name: e.Name}
}
