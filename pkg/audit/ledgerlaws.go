package audit

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// violate reports a violation in the ledger at this revision.
func (a *replay) violate(invariant string, objects []string, message string, args ...any) {
	a.report.add(Finding{
		Severity: Violation, Invariant: invariant, Revision: a.revision, Objects: objects,
		Message: fmt.Sprintf(message, args...),
	})
}

// checkKey checks one change against the state before it: keys that must not be deleted (S12), and owners that must
// not change under one epoch (S11).
func (a *replay) checkKey(ev LedgerEvent) {
	switch {
	case strings.HasPrefix(ev.Key, registry.PrefixGuard) && ev.Deleted:
		if id, _, _, ok := registry.ParseGuard(ev.Key); ok && a.terms[id] {
			a.violate("S12", []string{ledgerObject(ev.Key)}, "was deleted while its term was registered and not retiring")
		}
	case strings.HasPrefix(ev.Key, roster.PrefixOwn) && !ev.Deleted:
		a.checkOwner(ev)
	}
}

func (a *replay) checkOwner(ev LedgerEvent) {
	partition, ok := roster.ParseOwn(ev.Key)
	if !ok {
		return
	}
	now, err := roster.DecodeOwner(ev.Value)
	old, known := a.owners[partition]
	switch {
	case err != nil:
		return // learn reports it
	case !known:
		a.report.Takeovers++
	case old.epoch == ev.Create && old.member != now.Member:
		a.violate("S11", []string{ledgerObject(ev.Key)}, "went from %s to %s under one epoch, %d",
			old.member, now.Member, ev.Create)
	}
}

// checkDoc checks one revision of a node's document against the previous one.
func (a *replay) checkDoc(before, after ledger.NodeDoc) {
	key := ledgerObject(ledger.KeyNode(after.NodeUID))
	for _, kind := range slices.Sorted(maps.Keys(before.HW)) {
		if after.HW[kind] < before.HW[kind] {
			a.violate("S12", []string{nodeObject(after.NodeName), key}, "its high-water mark of %ss decreased from %d to %d",
				kind, before.HW[kind], after.HW[kind])
		}
	}
	a.checkClaims(after)
	seen := map[string]bool{}
	for _, e := range reservations(after) {
		if seen[e.PodUID] {
			a.violate("S3", []string{entryObject(e), key}, "has two reservations on one node")
		}
		seen[e.PodUID] = true
	}
	for _, old := range reservations(before) {
		now, ok := after.Find(old.PodUID)
		if ok && now.Token == old.Token {
			a.checkStep(old, now, before, after)
			continue
		}
		a.checkDeparture(old, before, after)
	}
	for _, now := range reservations(after) {
		old, ok := before.Find(now.PodUID)
		if ok && old.Token == now.Token {
			continue
		}
		a.checkArrival(now, before, after)
	}
}

// checkClaims checks that no pod is a victim twice, or both a victim and relied upon (S5).
func (a *replay) checkClaims(doc ledger.NodeDoc) {
	plans := map[string]string{}
	for _, e := range doc.Entries {
		if e.Role != ledger.RoleVictim {
			continue
		}
		if plan, claimed := plans[e.PodUID]; claimed {
			a.violate("S5", []string{entryObject(e), nodeObject(doc.NodeName)},
				"is claimed by plans %q and %q", plan, e.Plan)
		}
		plans[e.PodUID] = e.Plan
	}
	for _, e := range doc.Entries {
		if _, claimed := plans[e.PodUID]; claimed && e.Role == ledger.RoleKeeper {
			a.violate("S5", []string{entryObject(e), nodeObject(doc.NodeName)},
				"is claimed as a victim although placements depend on it")
		}
	}
}

// checkStep checks that a reservation only moves forward, and that nothing else in it changes except at a promotion
// (S4).
func (a *replay) checkStep(old, now ledger.Entry, before, after ledger.NodeDoc) {
	if old.State != now.State {
		forward := old.State == ledger.Held && now.State == ledger.Committed ||
			old.State == ledger.Committed && now.State == ledger.Fencing
		if !forward {
			a.violate("S4", []string{entryObject(now), nodeObject(after.NodeName)}, "its reservation went from %s to %s",
				old.State, now.State)
		}
		if now.State == ledger.Committed && forward {
			if forOthers(old) {
				a.report.Promoted++
			}
			a.checkName(now, before, after)
			a.commit(now, before, after)
		}
	}
	if old.State == ledger.Held && now.State == ledger.Committed && now.Plan == "" && now.PodRV >= old.PodRV {
		// Its plan has ended, and the pod has been evaluated again, including its claims and which binder binds it
		// (T3).
		old.Plan = ""
		old.PodRV = now.PodRV
		old.Wish = now.Wish
		old.Volumes = now.Volumes
		old.Devices = now.Devices
		old.Delegated = now.Delegated
	}
	if now.State == ledger.Committed && len(old.Devices) == len(now.Devices) {
		old.Devices = slices.Clone(old.Devices)
		for i := range old.Devices {
			if p := &old.Devices[i]; p.Unmade() { // the claim has been created (T14)
				p.ClaimUID, p.ClaimRV = now.Devices[i].ClaimUID, now.Devices[i].ClaimRV
			}
		}
	}
	if old.State == ledger.Committed && now.State == ledger.Fencing {
		old.Cause = now.Cause // the reason why it is taken back (T6)
	}
	if old.Later == "" {
		old.Later = now.Later // added by a later version, and must be kept
	}
	old.State, old.Wanted = now.State, now.Wanted
	if !reflect.DeepEqual(old, now) {
		a.violate("S4", []string{entryObject(now), nodeObject(after.NodeName)}, "its reservation %s was rewritten", now.Token)
	}
}

// checkArrival checks that a reservation starts Held or Committed, and is made by the shard that owns the pod's
// partition (S11).
func (a *replay) checkArrival(e ledger.Entry, before, after ledger.NodeDoc) {
	objects := []string{entryObject(e), nodeObject(after.NodeName)}
	if e.State != ledger.Held && e.State != ledger.Committed {
		a.violate("S4", objects, "its reservation appeared as %s", e.State)
	}
	a.checkName(e, before, after)
	if e.PodRV == 0 || e.Token == 0 {
		a.violate("form", objects, "its reservation has token %s and resourceVersion %d, want both", e.Token, e.PodRV)
	}
	partition := e.Partition()
	holder, owned := a.owners[partition]
	switch {
	case !owned:
		a.violate("S11", objects, "was reserved by %s while partition %d had no owner", e.Shard, partition)
	case holder.member != e.Shard:
		a.violate("S11", objects, "was reserved by %s while %s owned partition %d (since revision %d)",
			e.Shard, holder.member, partition, holder.epoch)
	}
	if e.State == ledger.Committed {
		a.commit(e, before, after)
	}
}

// checkName checks that a pod is assigned to a node only while the node's name refers to that node (S16).
func (a *replay) checkName(e ledger.Entry, before, after ledger.NodeDoc) {
	if before.SupersededBy != "" {
		a.violate("S16", []string{entryObject(e), nodeObject(after.NodeName)},
			"was reserved on node %s, whose name already stood for node %s", after.NodeUID, before.SupersededBy)
	}
}

// checkDeparture checks that a committed reservation leaves with a fact that the high-water mark covers, or after a
// completed fence (S4).
func (a *replay) checkDeparture(e ledger.Entry, before, after ledger.NodeDoc) {
	if e.State == ledger.Held {
		a.abandoned(e)
		return
	}
	defer a.leave(e, before, after)
	pod, hw := a.pods[e.PodUID], after.HW[ledger.KindPod]
	objects := []string{entryObject(e), nodeObject(after.NodeName)}
	if pod == nil {
		if hw < e.PodRV {
			a.violate("S4", objects, "its reservation was removed at high-water mark %d, below the pod's resourceVersion %d",
				hw, e.PodRV)
		}
		return
	}
	switch {
	case pod.bound.maybe(hw), pod.ended.maybe(hw):
	case e.State != ledger.Fencing:
		a.violate("S4", objects, "its committed reservation was removed at high-water mark %d without a fence, "+
			"and no fact up to it shows the pod bound or gone", hw)
	case !pod.fenced(e.Token, hw):
		a.violate("S4", objects, "its reservation was released at high-water mark %d, and up to it no fence of token %s "+
			"had changed the pod", hw, e.Token)
	}
}

// checkUnique checks that a pod has one reservation that is committed or being fenced, over all nodes (S3), even
// while its partition moves between shards.
func (a *replay) checkUnique(events []LedgerEvent) {
	for _, ev := range events {
		uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode)
		if !ok {
			continue
		}
		for _, e := range reservations(a.docs[uid]) {
			if p := a.placementOf(e.PodUID, e.Token); p != nil && p.committed == a.revision {
				a.checkOthers(p)
			}
		}
	}
}

func (a *replay) checkOthers(p *placement) {
	for _, other := range a.placements[p.entry.PodUID] {
		if other == p || other.left != 0 || other.committed > p.committed {
			continue
		}
		a.violate("S3", []string{p.object(), nodeObject(p.node), nodeObject(other.node)},
			"is reserved on %s while it still has a reservation on %s, of revision %d", p.node, other.node, other.committed)
	}
}

// checkDisplaced checks that a held reservation is displaced only by a higher priority (S10).
func (a *replay) checkDisplaced(before map[string]ledger.NodeDoc) {
	for uid, old := range before {
		for _, e := range reservations(old) {
			now, ok := a.docs[uid].Find(e.PodUID)
			if e.State == ledger.Held && (!ok || now.Token != e.Token) && !a.over(e.PodUID) {
				a.checkTaker(e, a.docs[uid])
			}
		}
	}
}

// over reports whether a pod no longer needs a place.
func (a *replay) over(podUID string) bool {
	pod := a.pods[podUID]
	return pod != nil && (pod.ended.maybe(a.latest(a.revision)) || pod.bound.known())
}

func (a *replay) checkTaker(held ledger.Entry, doc ledger.NodeDoc) {
	for _, p := range a.fresh {
		taker, found := doc.Find(p.entry.PodUID)
		if p.nodeUID == doc.NodeUID && found && taker.Priority <= held.Priority && p.entry.PodUID != held.PodUID {
			a.violate("S10", []string{entryObject(held), p.object(), nodeObject(p.node)},
				"its held place of priority %d was displaced by priority %d", held.Priority, taker.Priority)
		}
	}
}
