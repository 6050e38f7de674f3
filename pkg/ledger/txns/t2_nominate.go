package txns

import (
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Nomination is T2 (nominate): a place is held for a pod, and the pods that must be evicted for it are claimed.
type Nomination struct {
	Authority
	// Hold is the reservation, and its node. It becomes Held, under the plan of its token.
	Hold NodeEntry
	// Victims are the running pods that must be evicted, on any nodes, each with its PodRV and all the disruption
	// budgets that cover it.
	Victims []NodeEntry
	// Yields is the number of bindable reservations that must be given back, too: in Docs they are Wanted
	// (MarkWanted), and their binders give them back.
	Yields int
	// Keepers are the running pods that the pod of the hold relies on (required affinity).
	Keepers []NodeEntry
	// Docs are the documents of all nodes named above, as read (or after applying Finish and Cover).
	Docs []ledger.NodeDoc
	// Budgets are those that cover victims.
	Budgets []BudgetRoom
	// Exclusives are the volumes and pools of which the pod holds something: see Hold.
	Exclusives []ledger.ExclusiveDoc
	// Guards are the guard uses of the pod as a carrier. They take effect at once: a replacement of a victim must
	// find the hold there.
	Guards []registry.GuardUse
	Facts  ClaimFacts
}

// Plan returns the id of the plan that the nomination starts.
func (n Nomination) Plan() string { return ledger.PlanID(n.Hold.Entry.Token, false) }

const stepNominate = "T2 nominate"

// Nominate builds T2. Before it commits, no pod may be evicted, and the pod may not be nominated in the API.
// Evictions also require that MarkEvicting has committed on top of it.
//
// Compares: own/<p>.CreateRevision; t/reg.ModRevision; n/<uid>.ModRevision of the place, the victims and the
// keepers; b/<uid>.ModRevision of the budgets and b/ns/<namespace>; x/; the guards. Puts: all of these but own and
// t/reg. A crash before it leaves nothing. After it the hold counts against every pod, and no other plan can claim
// the victims. The owner of the pod's partition at that time continues the plan or drops it (AbortPlan).
//
// *ClaimedError: a victim belongs to another plan, or a placement relies on it, or a keeper is a victim.
// *BudgetError: a budget has no room. *RefusedError: something named is not given, or the facts are older than a
// document's high-water. *DocTooLargeError: a document is full. A plan that is too large for one transaction gets a
// *TxnError from Txn: see FormPlan.
func Nominate(n Nomination) (Change, error) {
	if len(n.Victims)+n.Yields == 0 {
		return Change{}, &RefusedError{Step: stepNominate, PodUID: n.Hold.Entry.PodUID, Reason: "nothing has to go for it"}
	}
	return n.build(n.Plan())
}

func (n Nomination) build(plan string) (Change, error) {
	hold := n.Hold.Entry
	hold.Role = ledger.RoleReservation
	hold.State = ledger.Held
	hold.Plan = plan
	if err := n.covers(stepNominate, hold); err != nil {
		return Change{}, err
	}
	if err := upToDate(stepNominate, n.Docs, n.Facts); err != nil {
		return Change{}, err
	}
	set := docSet{step: stepNominate, docs: append([]ledger.NodeDoc(nil), n.Docs...)}
	for _, k := range n.Keepers {
		err := set.change(k.NodeUID, k.Entry.PodUID, func(d ledger.NodeDoc) (ledger.NodeDoc, error) {
			return Pin(d, k.Entry, ledger.Dependent{PodUID: hold.PodUID, PodRV: hold.PodRV})
		})
		if err != nil {
			return Change{}, err
		}
	}
	budgets, err := set.claim(n.Victims, plan, n.Budgets, n.Facts)
	if err != nil {
		return Change{}, err
	}
	err = set.change(n.Hold.NodeUID, hold.PodUID, func(d ledger.NodeDoc) (ledger.NodeDoc, error) { return Place(d, hold) })
	if err != nil {
		return Change{}, err
	}
	return Change{
		Authority: &n.Authority, Docs: set.docs, Budgets: budgets, Exclusives: n.Exclusives, Guards: n.Guards,
		Marker: Marker{NodeUID: n.Hold.NodeUID, Token: hold.Token, State: ledger.Held},
	}, nil
}

// upToDate requires that the facts have reached the documents' high-waters of pods.
func upToDate(step string, docs []ledger.NodeDoc, facts PodFacts) error {
	for _, d := range docs {
		if p := facts.PodProgress(); p == 0 || p < d.HighWater(ledger.KindPod) {
			return &RefusedError{Step: step, NodeUID: d.NodeUID, Reason: "the facts about pods are older than its high-water"}
		}
	}
	return nil
}
