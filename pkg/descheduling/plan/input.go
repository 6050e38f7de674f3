package plan

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/descheduling"
	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Input is everything a plan depends on.
type Input struct {
	// Cluster is the cluster as the facts show it.
	Cluster *state.Snapshot
	// Nodes holds all nodes with everything that counts on them, promises included. The plan modifies them. nil
	// means those of Cluster, with the pods in the snapshot.
	Nodes  []*state.NodeInfo
	Policy *policy.Policy
	// Usage is the actual utilisation, for strategies that need it.
	Usage descheduling.Usage
	// Placement returns the profile with which a pod of this scheduler would be placed.
	Placement func(schedulerName string) *placement.Profile
	// History is that of earlier cycles; it is only read.
	History *History
	// Claimed returns how many disruptions of a budget, by UID, have been promised and do not show in its status;
	// nil means none.
	Claimed func(budgetUID string) int32
	// Spare returns how many pods of a budget, by UID, are healthy and not needed, without promised ones: once a
	// disruption has been claimed, the ledger allows no more than that, whatever the status is. It is called for
	// budgets from which the plan takes more than one disruption. nil means no limit.
	Spare func(budgetUID string) int
	// Promised reports whether a plan or a placement relies on a pod, by UID: as a victim, or as a pod that stays.
	// nil means that none does.
	Promised func(podUID string) bool
	// Pinned means that landing places are kept for the replacements, where it can be determined which pods those
	// are (view.ReplacementOf).
	Pinned bool
	// Now is compared with the times in History, and with those of pods.
	Now time.Time
	// Kept, if set, is called for every candidate that stays, with the reason.
	Kept func(descheduling.Candidate, descheduling.Refusal)
	// Timed, if set, is called when a strategy begins; the function that it returns is called when the strategy has
	// ended.
	Timed func(profile, strategy string) (ended func())
}
