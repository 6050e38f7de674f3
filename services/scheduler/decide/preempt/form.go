package preempt

import (
	policyv1 "k8s.io/api/policy/v1"

	"github.com/berth-scheduler/berth/pkg/events"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/txns"
	"github.com/berth-scheduler/berth/services/scheduler/decide/txn"
)

// victimsPerPart is how many victims one transaction of a large plan claims: each has a document and may have a
// disruption budget, and a transaction has at most ledger.MaxTxnOps operations. A part that is still too large is
// halved.
const victimsPerPart = 40

// form continues a plan that has a record. It returns inspectionOpen once the record is Ready. A plan that is not
// Ready, and whose victims this shard does not know, was begun by another shard, or by this one before it lost the
// partition: it is given up. No victim has been evicted then, since binders wait for the record.
func (rc *reconciler) form(s holdState) inspection {
	r, ok := rc.shard.Ledger.Plans().Record(s.plan)
	if ok && r.State == ledger.PlanReady {
		return inspectionOpen
	}
	if !ok || r.State != ledger.PlanForming || len(s.remaining) == 0 {
		return rc.giveUp(s, withdrawal{reason: "its plan was not completed"})
	}
	authority, mine := rc.shard.Authority(s.entry.Partition())
	if !mine {
		return inspectionWaits
	}
	claimed := victimsOf(rc.shard.Ledger.Plans().Docs(s.plan), s.plan)
	part := formPart{authority: authority, record: r, victims: rc.unclaimed(s, claimed), claimed: len(claimed)}
	err := rc.sendPart(s, part)
	for txn.IsTooLarge(err) && len(part.victims) > 1 {
		part.victims = part.victims[:len(part.victims)/2]
		err = rc.sendPart(s, part)
	}
	if l := resultOf(err); l != inspectionOpen {
		return l
	}
	return rc.giveUp(s, withdrawal{reason: err.Error()})
}

// formPart is a further transaction of a large plan; claimed is how many of its victims are claimed already. Without
// victims it is the last one, which makes the record Ready.
type formPart struct {
	authority txns.Authority
	record    ledger.PlanRecord
	victims   []txns.NodeEntry
	claimed   int
}

// sendPart sends the claims on some more victims, or the change that makes the plan Ready if none is left.
func (rc *reconciler) sendPart(s holdState, p formPart) error {
	var change txns.Change
	var err error
	if len(p.victims) == 0 {
		change, err = txns.FinishPlan(p.authority, p.record, s.doc, p.claimed)
	} else {
		profile, known := rc.shard.Profiles[s.pod.SchedulerName]
		change, err = rc.extension(p.authority, p.record, p.victims, known && profile.ExceedsBudgets())
	}
	if err != nil {
		return err
	}
	return rc.slot.Launch(&formation{holdState: s}, change)
}

// unclaimed returns the next victims of a plan that are not claimed yet, at most victimsPerPart.
func (rc *reconciler) unclaimed(s holdState, claimed []ledger.Entry) []txns.NodeEntry {
	known := map[string]bool{}
	for _, e := range claimed {
		known[e.PodUID] = true
	}
	var part []txns.NodeEntry
	for _, v := range s.remaining {
		if !known[v.Entry.PodUID] && len(part) < victimsPerPart {
			part = append(part, v)
		}
	}
	return part
}

// extension returns the change that claims some more victims. It needs the documents of their nodes and the rest of
// their budgets; a victim whose budget the facts do not have any more takes nothing from it. A node that is gone may
// still have a document.
func (rc *reconciler) extension(
	m txns.Authority, r ledger.PlanRecord, part []txns.NodeEntry, exceed bool,
) (txns.Change, error) {
	x := txns.Extension{Authority: m, Record: r, Victims: part, Facts: rc.shard.View.TxnFacts()}
	docs, budgets := map[string]bool{}, map[string]bool{}
	for _, v := range part {
		if !docs[v.NodeUID] {
			docs[v.NodeUID] = true
			if n, ok := rc.shard.View.Node(v.NodeUID); ok {
				x.Docs = append(x.Docs, rc.shard.Ledger.Open(v.NodeUID, n.Node.Name, n.Node.ResourceVersion))
			} else if doc, ok := rc.shard.Ledger.Doc(v.NodeUID); ok {
				x.Docs = append(x.Docs, doc)
			}
		}
		for _, uid := range v.Entry.Budgets {
			o, ok := rc.shard.View.Snapshot().Object(events.KindDisruptionBudget, uid)
			if budgets[uid] || !ok {
				continue
			}
			budgets[uid] = true
			if pdb, ok := o.API.(*policyv1.PodDisruptionBudget); ok {
				room := rc.shard.View.Budgets().Room(pdb)
				room.Exceed = exceed
				x.Budgets = append(x.Budgets, room)
			}
		}
	}
	return txns.ExtendPlan(x)
}

// formation is one further transaction of a large plan, in flight. Whatever becomes of it, the hold is due: the
// record and the claims in the ledger show where to continue.
type formation struct{ holdState }

func (f *formation) Kind() string { return "T2" }

func (f *formation) Done(int64) { f.by.holds.due[f.podUID] = struct{}{} }

// TooLarge makes the hold due: later parts are smaller, if that is possible.
func (f *formation) TooLarge(string) { f.by.holds.due[f.podUID] = struct{}{} }

func (f *formation) Undone(txns.Outcome) { f.by.holds.due[f.podUID] = struct{}{} }
