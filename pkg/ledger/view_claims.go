package ledger

import (
	"iter"
	"maps"
	"slices"
	"strings"
)

// claimView is the part of a View about claims.
type claimView struct {
	budgets    map[string]BudgetDoc
	exclusives map[string]ExclusiveDoc
	records    map[string]PlanRecord
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
		budgets: map[string]BudgetDoc{}, exclusives: map[string]ExclusiveDoc{}, records: map[string]PlanRecord{},
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
	return strings.HasPrefix(key, PrefixBudget) || strings.HasPrefix(key, PrefixPlan) || ofExclusive(key)
}

// Budget returns the document of a disruption budget; an empty one at revision 0 if nothing was ever claimed from
// it.
func (v *View) Budget(pdbUID string) BudgetDoc {
	if b, ok := v.claims.budgets[pdbUID]; ok {
		return b
	}
	return BudgetDoc{UID: pdbUID, HW: v.names.floor.of(KindBudget, KindPod), Floor: v.names.floor.Revision}
}

// SharedBudgets returns the document that the budgets of a namespace share (BudgetRoom.Shared), and whether a lost
// compare has shown it ahead of the watch. It then shows that other members have claimed, but not what: only the
// watch delivers that.
func (v *View) SharedBudgets(namespace string) (doc BudgetDoc, ahead bool) {
	doc = v.Budget(sharedBy + namespace)
	doc.Namespace = namespace
	return doc, v.claims.ahead[doc.UID] > v.revision
}

// note records that a lost compare has shown a shared document.
func (cv *claimView) note(kv KV) {
	if _, shared := ParseShared(kv.Key); shared {
		cv.ahead[strings.TrimPrefix(kv.Key, PrefixBudget)] = kv.ModRevision
	}
}

// reached forgets the entries of ahead that the watch has caught up with.
func (cv *claimView) reached(revision int64) {
	maps.DeleteFunc(cv.ahead, func(_ string, ahead int64) bool { return ahead <= revision })
}

// Budgets iterates over the documents of all disruption budgets, in no order.
func (v *View) Budgets() iter.Seq[BudgetDoc] { return maps.Values(v.claims.budgets) }

// Exclusive returns the document of a volume or pool (KeyVolume, KeyPool); an empty one at revision 0 if it was
// never held.
func (v *View) Exclusive(key string) ExclusiveDoc {
	if x, ok := v.claims.exclusives[key]; ok {
		return x
	}
	return ExclusiveDoc{Key: key, HW: v.names.floor.of(KindPod, KindClaim), Floor: v.names.floor.Revision}
}

// Exclusives iterates over the documents of all volumes and pools, in no order.
func (v *View) Exclusives() iter.Seq[ExclusiveDoc] { return maps.Values(v.claims.exclusives) }

// Record returns the record of a plan; false if there is none (any more).
func (v *View) Record(plan string) (PlanRecord, bool) {
	p, ok := v.claims.records[plan]
	return p, ok
}

// Records iterates over all plan records, in no order.
func (v *View) Records() iter.Seq[PlanRecord] { return maps.Values(v.claims.records) }

// Victim returns the claim on a pod and the document that contains it.
func (v *View) Victim(podUID string) (NodeDoc, Entry, bool) {
	d, ok := v.docs[v.claims.victims[podUID]]
	if !ok {
		return NodeDoc{}, Entry{}, false
	}
	e, ok := d.Victim(podUID)
	return d, e, ok
}

// HasVictimsIn reports whether a pod of a namespace is claimed as a victim.
func (v *View) HasVictimsIn(namespace string) bool { return v.claims.victimsIn[namespace] > 0 }

// PlanDocs returns the documents that contain entries of a plan, by node UID.
func (v *View) PlanDocs(plan string) []NodeDoc {
	var out []NodeDoc
	for _, uid := range slices.Sorted(slices.Values(v.claims.plans[plan])) {
		out = append(out, v.docs[uid])
	}
	return out
}

// PlanOwner returns the hold or placeholder that a plan works for, and the document that contains it.
func (v *View) PlanOwner(plan string) (NodeDoc, Entry, bool) {
	for _, uid := range v.claims.plans[plan] {
		if e, ok := v.docs[uid].Owner(plan); ok {
			return v.docs[uid], e, true
		}
	}
	return NodeDoc{}, Entry{}, false
}

// Going reports whether a victim leaves for another pod: its plan has a hold or placeholder, and if it has a
// record, that is Ready. A victim of a plan that was given up counts like any pod until it is gone, whatever has
// been sent.
func (v *View) Going(victim Entry) bool {
	if victim.Role != RoleVictim {
		return false
	}
	if p, ok := v.claims.records[victim.Plan]; IsRecorded(victim.Plan) && (!ok || p.State != PlanReady) {
		return false
	}
	_, _, ok := v.PlanOwner(victim.Plan)
	return ok
}

// index updates the indexes for one document that changed from old to now.
func (cv *claimView) index(old, now NodeDoc) {
	for _, e := range old.Entries {
		if e.Role == RoleVictim {
			cv.countVictim(e.Namespace, -1)
		}
		if e.Role == RoleVictim && cv.victims[e.PodUID] == old.NodeUID {
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
		if e.Role == RoleVictim {
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

func (cv *claimView) put(kv KV, set *changeSet) error {
	switch {
	case strings.HasPrefix(kv.Key, PrefixBudget):
		return putNewer(cv.budgets, kv, DecodeBudget, strings.TrimPrefix(kv.Key, PrefixBudget), &set.budgets)
	case strings.HasPrefix(kv.Key, PrefixPlan):
		return putNewer(cv.records, kv, DecodePlan, strings.TrimPrefix(kv.Key, PrefixPlan), &set.plans)
	default:
		return putNewer(cv.exclusives, kv, DecodeExclusive, kv.Key, &set.exclusives)
	}
}

// putNewer stores a document, unless that revision of it or a newer one is known.
func putNewer[T document[T]](
	into map[string]T, kv KV, decode func(KV) (T, error), name string, changed *[]string,
) error {
	if old, known := into[name]; known && kv.ModRevision <= old.revision() {
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
	case strings.HasPrefix(key, PrefixBudget):
		dropOlder(cv.budgets, strings.TrimPrefix(key, PrefixBudget), revision, &set.budgets)
	case strings.HasPrefix(key, PrefixPlan):
		dropOlder(cv.records, strings.TrimPrefix(key, PrefixPlan), revision, &set.plans)
	default:
		dropOlder(cv.exclusives, key, revision, &set.exclusives)
	}
}

func dropOlder[T document[T]](from map[string]T, name string, revision int64, changed *[]string) {
	if old, known := from[name]; known && old.revision() < revision {
		delete(from, name)
		*changed = append(*changed, name)
	}
}
