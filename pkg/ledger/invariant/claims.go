package invariant

import (
	"fmt"
	"iter"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// checkVictims checks S5 within one document: a victim is claimed once, and no placement relies on it.
func checkVictims(d ledger.NodeDoc) []Violation {
	var out []Violation
	seen := map[string]bool{}
	for _, e := range d.Entries {
		if e.Role != ledger.RoleVictim {
			continue
		}
		if seen[e.PodUID] {
			out = append(out, Violation{Invariant: "S5", NodeUID: d.NodeUID, PodUID: e.PodUID, Detail: "is claimed twice"})
		}
		seen[e.PodUID] = true
		if d.Pinned(e.PodUID) {
			out = append(out, Violation{Invariant: "S5", NodeUID: d.NodeUID, PodUID: e.PodUID,
				Detail: "is claimed as a victim and relied upon"})
		}
	}
	return out
}

// CheckClaims checks S5 over all documents: each victim is claimed by at most one plan.
func CheckClaims(docs iter.Seq[ledger.NodeDoc]) []Violation {
	var out []Violation
	at := map[string]string{}
	for d := range docs {
		for _, e := range d.Entries {
			if e.Role != ledger.RoleVictim {
				continue
			}
			if other, ok := at[e.PodUID]; ok && other != d.NodeUID {
				out = append(out, Violation{Invariant: "S5", NodeUID: d.NodeUID, PodUID: e.PodUID,
					Detail: fmt.Sprintf("is claimed on node %s too", other)})
			}
			at[e.PodUID] = d.NodeUID
		}
	}
	return out
}

// checkVictimStep checks S4 and S5 for the claims of a document: a claim that is Evicting goes back only by a
// failed eviction, and leaves only when its victim has left.
func checkVictimStep(before, after ledger.NodeDoc) []Violation {
	var out []Violation
	for _, old := range before.Entries {
		if old.Role != ledger.RoleVictim || old.State != ledger.Evicting {
			continue
		}
		if _, ok := after.Victim(old.PodUID); !ok && after.HW[ledger.KindPod] < old.PodRV {
			out = append(out, Violation{Invariant: "S5", NodeUID: after.NodeUID, PodUID: old.PodUID, Detail: fmt.Sprintf(
				"its claim left while evictions may arrive, and high-water %d does not cover its resourceVersion %d",
				after.HW[ledger.KindPod], old.PodRV)})
		}
	}
	for _, now := range after.Entries {
		if now.Role != ledger.RoleVictim {
			continue
		}
		old, known := before.Victim(now.PodUID)
		if !known && now.State != 0 && !ledger.IsEviction(now.Plan) {
			out = append(out, Violation{Invariant: "S9", NodeUID: after.NodeUID, PodUID: now.PodUID,
				Detail: "was claimed as " + now.State.String()})
		}
		if known && old.Plan != now.Plan {
			out = append(out, Violation{Invariant: "S5", NodeUID: after.NodeUID, PodUID: now.PodUID,
				Detail: fmt.Sprintf("went from plan %s to %s", old.Plan, now.Plan)})
		}
	}
	return out
}

// CheckDisplaced checks S10 between two revisions of a document: a hold that took over the plan of another hold has
// strictly higher priority.
func CheckDisplaced(before, after ledger.NodeDoc) []Violation {
	var out []Violation
	for _, old := range before.Entries {
		if old.Role != ledger.RoleReservation || old.State != ledger.Held || old.Plan == "" {
			continue
		}
		now, ok := after.Owner(old.Plan)
		if ok && now.Token != old.Token && now.Priority <= old.Priority {
			out = append(out, Violation{Invariant: "S10", NodeUID: after.NodeUID, PodUID: old.PodUID, Detail: fmt.Sprintf(
				"priority %d was displaced by pod %s of priority %d", old.Priority, now.PodUID, now.Priority)})
		}
	}
	return out
}

// CheckBudgetSuccessor checks that after may follow before as the next revision of one disruption budget's
// document: high-waters do not sink (S12), and no victim is claimed twice (S6). A zero before stands for "did not
// exist".
func CheckBudgetSuccessor(before, after ledger.BudgetDoc) []Violation {
	out := checkHighWater(after.DocKey(), before.HW, after.HW)
	seen := map[string]bool{}
	for _, c := range after.Claims {
		if seen[c.PodUID] {
			out = append(out, Violation{Invariant: "S6", NodeUID: after.DocKey(), PodUID: c.PodUID, Detail: "is claimed twice"})
		}
		seen[c.PodUID] = true
	}
	return out
}

// CheckExclusiveSuccessor checks the same for the document of a volume or pool: high-waters do not sink (S12), and
// nothing is held twice (S7).
func CheckExclusiveSuccessor(before, after ledger.ExclusiveDoc) []Violation {
	out := checkHighWater(after.Key, before.HW, after.HW)
	x := ledger.ExclusiveDoc{Key: after.Key}
	for _, h := range after.Holders {
		next, err := x.AddHolder(h)
		if err != nil {
			out = append(out, Violation{Invariant: "S7", NodeUID: after.Key, PodUID: h.PodUID, Detail: err.Error()})
			continue
		}
		x = next
	}
	return out
}

// CheckPlanSuccessor checks that a plan's record may change from before to after; a zero after stands for "was
// dropped".
func CheckPlanSuccessor(before, after ledger.PlanRecord) []Violation {
	if before.State == after.State || after.State.Follows(before.State) {
		return nil
	}
	return []Violation{{Invariant: "S9", NodeUID: max(before.NodeUID, after.NodeUID), Detail: fmt.Sprintf(
		"plan %s went from %s to %s", max(before.ID, after.ID), before.State, after.State)}}
}

// checkHighWater checks S12 for a document that is not a node's; key takes the place of the node in the Violation.
func checkHighWater(key string, before, after map[string]uint64) []Violation {
	var out []Violation
	for _, kind := range slices.Sorted(maps.Keys(before)) {
		if after[kind] < before[kind] {
			out = append(out, Violation{Invariant: "S12", NodeUID: key, Detail: fmt.Sprintf(
				"high-water of %s sank from %d to %d", kind, before[kind], after[kind])})
		}
	}
	return out
}
