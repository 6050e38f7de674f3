package replica

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// claimView is the part of a View about claims.
type claimView struct {
	budgets    map[string]ledger.BudgetDoc
	exclusives map[string]ledger.ExclusiveDoc
	records    map[string]ledger.PlanRecord
	// victims maps a pod to the node whose document claims it, plans a plan to the nodes whose documents contain
	// entries of it. victimsIn counts the claims on pods of each namespace.
	victims   map[string]string
	victimsIn map[string]int
	plans     map[string][]string
	// ahead are the revisions of shared documents that lost compares have shown, by UID: see SharedBudgets.
	ahead map[string]int64
}

func newClaimView() claimView {
	return claimView{
		budgets: map[string]ledger.BudgetDoc{}, exclusives: map[string]ledger.ExclusiveDoc{},
		records: map[string]ledger.PlanRecord{},
		victims: map[string]string{}, victimsIn: map[string]int{}, plans: map[string][]string{},
		ahead: map[string]int64{},
	}
}

func (cv *claimView) clone() claimView {
	return claimView{
		budgets: maps.Clone(cv.budgets), exclusives: maps.Clone(cv.exclusives), records: maps.Clone(cv.records),
		victims: maps.Clone(cv.victims), victimsIn: maps.Clone(cv.victimsIn), plans: maps.Clone(cv.plans),
		ahead: maps.Clone(cv.ahead),
	}
}

// ofClaims reports whether a key is of a disruption budget, a volume or pool, or a plan.
func ofClaims(key string) bool {
	return strings.HasPrefix(key, ledger.PrefixBudget) || strings.HasPrefix(key, ledger.PrefixPlan) ||
		ledger.IsExclusiveKey(key)
}

// Budget returns the document of a disruption budget; an empty one at revision 0 if nothing was ever claimed from
// it.
func (v *View) Budget(pdbUID string) ledger.BudgetDoc {
	if b, ok := v.claims.budgets[pdbUID]; ok {
		return b
	}
	return ledger.BudgetDoc{UID: pdbUID, HW: v.names.floor.Of(ledger.KindBudget, ledger.KindPod),
		Floor: v.names.floor.Revision}
}

// SharedBudgets returns the document that the budgets of a namespace share (BudgetRoom.Shared), and whether a lost
// compare has shown it ahead of the watch. It then shows that other members have claimed, but not what: only the
// watch delivers that.
func (v *View) SharedBudgets(namespace string) (doc ledger.BudgetDoc, ahead bool) {
	doc = v.Budget(ledger.SharedBudgetPrefix + namespace)
	doc.Namespace = namespace
	return doc, v.claims.ahead[doc.UID] > v.revision
}

// note records that a lost compare has shown a shared document.
func (cv *claimView) note(kv ledger.KV) {
	if _, shared := ledger.ParseShared(kv.Key); shared {
		cv.ahead[strings.TrimPrefix(kv.Key, ledger.PrefixBudget)] = kv.ModRevision
	}
}

// reached forgets the entries of ahead that the watch has caught up with.
func (cv *claimView) reached(revision int64) {
	maps.DeleteFunc(cv.ahead, func(_ string, ahead int64) bool { return ahead <= revision })
}

// Budgets iterates over the documents of all disruption budgets, in no order.
func (v *View) Budgets() iter.Seq[ledger.BudgetDoc] { return maps.Values(v.claims.budgets) }

// Exclusive returns the document of a volume or pool (KeyVolume, KeyPool); an empty one at revision 0 if it was
// never held.
func (v *View) Exclusive(key string) ledger.ExclusiveDoc {
	if x, ok := v.claims.exclusives[key]; ok {
		return x
	}
	return ledger.ExclusiveDoc{Key: key, HW: v.names.floor.Of(ledger.KindPod, ledger.KindClaim),
		Floor: v.names.floor.Revision}
}

// Exclusives iterates over the documents of all volumes and pools, in no order.
func (v *View) Exclusives() iter.Seq[ledger.ExclusiveDoc] { return maps.Values(v.claims.exclusives) }

// Record returns the record of a plan; false if there is none (any more).
func (v *View) Record(plan string) (ledger.PlanRecord, bool) {
	p, ok := v.claims.records[plan]
	return p, ok
}

// Records iterates over all plan records, in no order.
func (v *View) Records() iter.Seq[ledger.PlanRecord] { return maps.Values(v.claims.records) }

// Victim returns the claim on a pod and the document that contains it.
func (v *View) Victim(podUID string) (ledger.NodeDoc, ledger.Entry, bool) {
	d, ok := v.docs[v.claims.victims[podUID]]
	if !ok {
		return ledger.NodeDoc{}, ledger.Entry{}, false
	}
	e, ok := d.Victim(podUID)
	return d, e, ok
}

// HasVictimsIn reports whether a pod of a namespace is claimed as a victim.
func (v *View) HasVictimsIn(namespace string) bool { return v.claims.victimsIn[namespace] > 0 }

// PlanDocs returns the documents that contain entries of a plan, by node UID.
func (v *View) PlanDocs(plan string) []ledger.NodeDoc {
	var out []ledger.NodeDoc
	for _, uid := range slices.Sorted(slices.Values(v.claims.plans[plan])) {
		out = append(out, v.docs[uid])
	}
	return out
}

// PlanOwner returns the hold or placeholder that a plan works for, and the document that contains it.
func (v *View) PlanOwner(plan string) (ledger.NodeDoc, ledger.Entry, bool) {
	for _, uid := range v.claims.plans[plan] {
		if e, ok := v.docs[uid].Owner(plan); ok {
			return v.docs[uid], e, true
		}
	}
	return ledger.NodeDoc{}, ledger.Entry{}, false
}

// Going reports whether a victim leaves for another pod: its plan has a hold or placeholder, and if it has a
// record, that is Ready. A victim of a plan that was given up counts like any pod until it is gone, whatever has
// been sent.
func (v *View) Going(victim ledger.Entry) bool {
	if victim.Role != ledger.RoleVictim {
		return false
	}
	if p, ok := v.claims.records[victim.Plan]; ledger.IsRecorded(victim.Plan) && (!ok || p.State != ledger.PlanReady) {
		return false
	}
	_, _, ok := v.PlanOwner(victim.Plan)
	return ok
}

// index updates the indexes for one document that changed from old to now.
func (cv *claimView) index(old, now ledger.NodeDoc) {
	for _, e := range old.Entries {
		if e.Role == ledger.RoleVictim {
			cv.countVictim(e.Namespace, -1)
		}
		if e.Role == ledger.RoleVictim && cv.victims[e.PodUID] == old.NodeUID {
			delete(cv.victims, e.PodUID)
		}
		at, known := cv.plans[e.Plan]
		if !known {
			continue
		}
		at = slices.DeleteFunc(slices.Clone(at), func(uid string) bool { return uid == old.NodeUID })
		if len(at) == 0 {
			delete(cv.plans, e.Plan)
			continue
		}
		cv.plans[e.Plan] = at
	}
	for _, e := range now.Entries {
		if e.Role == ledger.RoleVictim {
			cv.victims[e.PodUID] = now.NodeUID
			cv.countVictim(e.Namespace, 1)
		}
		if e.Plan != "" && !slices.Contains(cv.plans[e.Plan], now.NodeUID) {
			cv.plans[e.Plan] = append(slices.Clip(cv.plans[e.Plan]), now.NodeUID)
		}
	}
}

func (cv *claimView) countVictim(namespace string, change int) {
	if cv.victimsIn[namespace] += change; cv.victimsIn[namespace] == 0 {
		delete(cv.victimsIn, namespace)
	}
}

func (cv *claimView) put(kv ledger.KV, set *changeSet) error {
	switch {
	case strings.HasPrefix(kv.Key, ledger.PrefixBudget):
		return putNewer(cv.budgets, kv, codec.DecodeBudget, strings.TrimPrefix(kv.Key, ledger.PrefixBudget), &set.budgets)
	case strings.HasPrefix(kv.Key, ledger.PrefixPlan):
		return putNewer(cv.records, kv, codec.DecodePlan, strings.TrimPrefix(kv.Key, ledger.PrefixPlan), &set.plans)
	default:
		return putNewer(cv.exclusives, kv, codec.DecodeExclusive, kv.Key, &set.exclusives)
	}
}

// putNewer stores a document, unless that revision of it or a newer one is known.
func putNewer[T ledger.Document[T]](
	into map[string]T, kv ledger.KV, decode func(ledger.KV) (T, error), name string, changed *[]string,
) error {
	if old, known := into[name]; known && kv.ModRevision <= old.ReadAt() {
		return nil
	}
	d, err := decode(kv)
	if err != nil {
		return err
	}
	into[name] = d
	*changed = append(*changed, name)
	return nil
}

func (cv *claimView) drop(key string, revision int64, set *changeSet) {
	switch {
	case strings.HasPrefix(key, ledger.PrefixBudget):
		dropOlder(cv.budgets, strings.TrimPrefix(key, ledger.PrefixBudget), revision, &set.budgets)
	case strings.HasPrefix(key, ledger.PrefixPlan):
		dropOlder(cv.records, strings.TrimPrefix(key, ledger.PrefixPlan), revision, &set.plans)
	default:
		dropOlder(cv.exclusives, key, revision, &set.exclusives)
	}
}

func dropOlder[T ledger.Document[T]](from map[string]T, name string, revision int64, changed *[]string) {
	if old, known := from[name]; known && old.ReadAt() < revision {
		delete(from, name)
		*changed = append(*changed, name)
	}
}
