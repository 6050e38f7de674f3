package audit

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

// documentLaws checks each change of a single key of the ledger against its previous value (S3, S4, S5, S10, S11, S12,
// S16). It also records what a change of a node's document means for placements, so it must see every document that a
// revision changed, exactly once.
type documentLaws struct {
	evidence *evidence
	state    *ledgerState
	placed   *placements
	found    *findings
}

// checkKey checks one change against the state before it: keys that must not be deleted (S12), and owners that must
// not change under one epoch (S11). The guard of a registered term must stay: placements under the term compare it,
// and a deleted key compares as if no placement had ever written it.
func (l *documentLaws) checkKey(ev recording.LedgerEvent) {
	switch {
	case strings.HasPrefix(ev.Key, registry.PrefixGuard) && ev.Deleted:
		if id, _, _, ok := registry.ParseGuard(ev.Key); ok && l.state.terms[id] {
			l.found.violate("S12", []string{ledgerObject(ev.Key)}, "was deleted while its term was registered and not retiring")
		}
	case strings.HasPrefix(ev.Key, roster.PrefixOwn) && !ev.Deleted:
		l.checkOwner(ev)
	}
}

// checkOwner checks that a partition keeps its owner under one epoch (S11). The epoch is the key's create revision: a
// new owner must delete the key and create it again, so that transactions that compare the epoch of the deposed owner
// fail. It counts take-overs.
func (l *documentLaws) checkOwner(ev recording.LedgerEvent) {
	partition, ok := roster.ParseOwn(ev.Key)
	if !ok {
		return
	}
	now, err := roster.DecodeOwner(ev.Value)
	old, known := l.state.owners[partition]
	switch {
	case err != nil:
		return // learn reports it
	case !known:
		l.found.report.Takeovers++
	case old.epoch == ev.Create && old.member != now.Member:
		l.found.violate("S11", []string{ledgerObject(ev.Key)}, "went from %s to %s under one epoch, %d",
			old.member, now.Member, ev.Create)
	}
}

// checkDoc checks one revision of a node's document against the previous one: its high-water marks do not decrease
// (S12), its claims do not contradict each other (S5), it has one reservation for a pod (S3), and each reservation
// stays, leaves or arrives as the protocol allows. Reservations are the same if pod and token are: a new attempt at
// the same pod is a departure and an arrival.
func (l *documentLaws) checkDoc(before, after ledger.NodeDoc) {
	key := ledgerObject(ledger.KeyNode(after.NodeUID))
	for _, kind := range slices.Sorted(maps.Keys(before.HW)) {
		if after.HW[kind] < before.HW[kind] {
			l.found.violate("S12", []string{nodeObject(after.NodeName), key},
				"its high-water mark of %ss decreased from %d to %d", kind, before.HW[kind], after.HW[kind])
		}
	}
	l.checkClaims(after)
	seen := map[string]bool{}
	for _, e := range reservations(after) {
		if seen[e.PodUID] {
			l.found.violate("S3", []string{entryObject(e), key}, "has two reservations on one node")
		}
		seen[e.PodUID] = true
	}
	for _, old := range reservations(before) {
		now, ok := after.Find(old.PodUID)
		if ok && now.Token == old.Token {
			l.checkStep(old, now, before, after)
			continue
		}
		l.checkDeparture(old, before, after)
	}
	for _, now := range reservations(after) {
		old, ok := before.Find(now.PodUID)
		if ok && old.Token == now.Token {
			continue
		}
		l.checkArrival(now, before, after)
	}
}

// checkClaims checks that no pod is a victim twice, or both a victim and relied upon (S5): a keeper is a running pod
// that satisfies the required affinity of a placement, and must not be evicted meanwhile.
func (l *documentLaws) checkClaims(doc ledger.NodeDoc) {
	plans := map[string]string{}
	for _, e := range doc.Entries {
		if e.Role != ledger.RoleVictim {
			continue
		}
		if plan, claimed := plans[e.PodUID]; claimed {
			l.found.violate("S5", []string{entryObject(e), nodeObject(doc.NodeName)},
				"is claimed by plans %q and %q", plan, e.Plan)
		}
		plans[e.PodUID] = e.Plan
	}
	for _, e := range doc.Entries {
		if _, claimed := plans[e.PodUID]; claimed && e.Role == ledger.RoleKeeper {
			l.found.violate("S5", []string{entryObject(e), nodeObject(doc.NodeName)},
				"is claimed as a victim although placements depend on it")
		}
	}
}

// checkStep checks that a reservation only moves forward (Held, Committed, Fencing), and that nothing else in it
// changes (S4). Permitted changes are copied from the new entry to the old one; then the two must be equal, so that a
// field which is added to entries later is covered as well. Permitted are:
//
//   - at a promotion (T3), what the shard evaluated again: the pod's version, its claims and who binds it;
//   - the claim that a binder created for an entry that had none (T14);
//   - the cause of a fence (T6);
//   - fields that a later version of Berth has written (Later);
//   - Wanted, by which a member asks the binders to give the entry back.
func (l *documentLaws) checkStep(old, now ledger.Entry, before, after ledger.NodeDoc) {
	if old.State != now.State {
		forward := old.State == ledger.Held && now.State == ledger.Committed ||
			old.State == ledger.Committed && now.State == ledger.Fencing
		if !forward {
			l.found.violate("S4", []string{entryObject(now), nodeObject(after.NodeName)}, "its reservation went from %s to %s",
				old.State, now.State)
		}
		if now.State == ledger.Committed && forward {
			if forOthers(old) {
				l.found.report.Promoted++
			}
			l.checkName(now, before, after)
			l.placed.commit(now, before, after)
		}
	}
	if old.State == ledger.Held && now.State == ledger.Committed && now.Plan == "" && now.PodRV >= old.PodRV {
		// Its plan has ended, and the pod has been evaluated again, including its claims and which binder binds it
		// (T3).
		old.Plan = ""
		old.PodRV = now.PodRV
		old.PlacementHash = now.PlacementHash
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
		l.found.violate("S4", []string{entryObject(now), nodeObject(after.NodeName)},
			"its reservation %s was rewritten", now.Token)
	}
}

// checkArrival checks that a reservation starts Held or Committed, and is made by the shard that owns the pod's
// partition at this revision (S11). The transaction compares the owner's key, so the owner after the revision is the
// one to compare with. A Held reservation is no placement yet: it may not be bound.
func (l *documentLaws) checkArrival(e ledger.Entry, before, after ledger.NodeDoc) {
	objects := []string{entryObject(e), nodeObject(after.NodeName)}
	if e.State != ledger.Held && e.State != ledger.Committed {
		l.found.violate("S4", objects, "its reservation appeared as %s", e.State)
	}
	l.checkName(e, before, after)
	if e.PodRV == 0 || e.Token == 0 {
		l.found.violate("form", objects, "its reservation has token %s and resourceVersion %d, want both", e.Token, e.PodRV)
	}
	partition := e.Partition()
	holder, owned := l.state.owners[partition]
	switch {
	case !owned:
		l.found.violate("S11", objects, "was reserved by %s while partition %d had no owner", e.Shard, partition)
	case holder.member != e.Shard:
		l.found.violate("S11", objects, "was reserved by %s while %s owned partition %d (since revision %d)",
			e.Shard, holder.member, partition, holder.epoch)
	}
	if e.State == ledger.Committed {
		l.placed.commit(e, before, after)
	}
}

// checkName checks that a pod is assigned to a node only while the node's name refers to that node (S16): a bind is by
// name, and would place the pod on the node that has the name now.
func (l *documentLaws) checkName(e ledger.Entry, before, after ledger.NodeDoc) {
	if before.SupersededBy != "" {
		l.found.violate("S16", []string{entryObject(e), nodeObject(after.NodeName)},
			"was reserved on node %s, whose name already stood for node %s", after.NodeUID, before.SupersededBy)
	}
}

// checkDeparture checks that a committed reservation leaves in one of two ways (S4): with a fact up to the document's
// high-water mark that shows the pod bound or gone, so that every shard that may use the node again counts the pod
// (T5); or after a fence, whose change of the pod makes any late bind fail (T7). A Held reservation may leave at any
// time, as it was never bound. The defer records the departure whether or not it was right: later revisions are
// checked against what is there.
func (l *documentLaws) checkDeparture(e ledger.Entry, before, after ledger.NodeDoc) {
	if e.State == ledger.Held {
		l.abandoned(e)
		return
	}
	defer l.placed.release(e, before, after)
	pod, hw := l.evidence.pods[e.PodUID], after.HW[ledger.KindPod]
	objects := []string{entryObject(e), nodeObject(after.NodeName)}
	if pod == nil {
		if hw < e.PodRV {
			l.found.violate("S4", objects,
				"its reservation was removed at high-water mark %d, below the pod's resourceVersion %d", hw, e.PodRV)
		}
		return
	}
	switch {
	case pod.bound.possibleBy(hw), pod.ended.possibleBy(hw):
	case e.State != ledger.Fencing:
		l.found.violate("S4", objects, "its committed reservation was removed at high-water mark %d without a fence, "+
			"and no fact up to it shows the pod bound or gone", hw)
	case !pod.fenced(e.Token, hw):
		l.found.violate("S4", objects, "its reservation was released at high-water mark %d, and up to it no fence of "+
			"token %s had changed the pod", hw, e.Token)
	}
}

// abandoned counts a hold that is removed although pods have been evicted for it, unless another hold took its plan.
// It is a count and no finding: a preemptor may be deleted, or become unschedulable, while its victims leave.
func (l *documentLaws) abandoned(e ledger.Entry) {
	if e.Plan == "" || l.evidence.finished(e.PodUID, l.found.revision) {
		return
	}
	for _, d := range l.state.docs {
		if holdsPlace(d, e.Plan) {
			return
		}
	}
	for _, d := range l.state.docs {
		for _, v := range d.Entries {
			if v.Role == ledger.RoleVictim && v.Plan == e.Plan && v.State == ledger.Evicting {
				l.found.report.Abandoned++
				return
			}
		}
	}
}

// checkUnique checks that a pod has one reservation that is committed or being fenced, over all nodes (S3), even while
// its partition moves between shards. It runs after all documents of the revision were applied: one transaction may
// remove the reservation on one node and make it on another.
func (l *documentLaws) checkUnique(events []recording.LedgerEvent) {
	for _, ev := range events {
		uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixNode)
		if !ok {
			continue
		}
		for _, e := range reservations(l.state.docs[uid]) {
			if p := l.placed.find(e.PodUID, e.Token); p != nil && p.committed == l.found.revision {
				l.checkOthers(p)
			}
		}
	}
}

// checkOthers reports the reservations of the same pod that existed before this placement and were not removed.
func (l *documentLaws) checkOthers(p *placement) {
	for _, other := range l.placed.byPod[p.entry.PodUID] {
		if other == p || other.left != 0 || other.committed > p.committed {
			continue
		}
		l.found.violate("S3", []string{p.object(), nodeObject(p.node), nodeObject(other.node)},
			"is reserved on %s while it still has a reservation on %s, of revision %d", p.node, other.node, other.committed)
	}
}

// checkDisplaced checks that a held reservation is displaced only by a higher priority (S10). A hold for a pod that no
// longer needs a place may go without one.
func (l *documentLaws) checkDisplaced(before map[string]ledger.NodeDoc) {
	for uid, old := range before {
		for _, e := range reservations(old) {
			now, ok := l.state.docs[uid].Find(e.PodUID)
			if e.State == ledger.Held && (!ok || now.Token != e.Token) && !l.evidence.finished(e.PodUID, l.found.revision) {
				l.checkDisplacer(e, l.state.docs[uid])
			}
		}
	}
}

// checkDisplacer compares a hold that has left a document with the placements that the same revision made there.
func (l *documentLaws) checkDisplacer(held ledger.Entry, doc ledger.NodeDoc) {
	for _, p := range l.placed.fresh {
		taker, found := doc.Find(p.entry.PodUID)
		if p.nodeUID == doc.NodeUID && found && taker.Priority <= held.Priority && p.entry.PodUID != held.PodUID {
			l.found.violate("S10", []string{entryObject(held), p.object(), nodeObject(p.node)},
				"its held place of priority %d was displaced by priority %d", held.Priority, taker.Priority)
		}
	}
}
