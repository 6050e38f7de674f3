package ledger

// Nomination is T2 (nominate): a place is held for a pod, and the pods that must be evicted for it are claimed.
type Nomination struct {
	Mandate
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
	Docs []NodeDoc
	// Budgets are those that cover victims.
	Budgets []BudgetRoom
	// Exclusives are the volumes and pools of which the pod holds something: see Hold.
	Exclusives []ExclusiveDoc
	// Guards are the guard uses of the pod as a carrier. They take effect at once: a replacement of a victim must
	// find the hold there.
	Guards []GuardUse
	Facts  ClaimFacts
}

// Plan returns the id of the plan that the nomination starts.
func (n Nomination) Plan() string { return PlanID(n.Hold.Entry.Token, false) }

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
	hold.Role = RoleReservation
	hold.State = Held
	hold.Plan = plan
	if err := n.covers(stepNominate, hold); err != nil {
		return Change{}, err
	}
	if err := upToDate(stepNominate, n.Docs, n.Facts); err != nil {
		return Change{}, err
	}
	set := docSet{step: stepNominate, docs: append([]NodeDoc(nil), n.Docs...)}
	for _, k := range n.Keepers {
		err := set.change(k.NodeUID, k.Entry.PodUID, func(d NodeDoc) (NodeDoc, error) {
			return Pin(d, k.Entry, Dependent{PodUID: hold.PodUID, PodRV: hold.PodRV})
		})
		if err != nil {
			return Change{}, err
		}
	}
	budgets, err := set.claim(n.Victims, plan, n.Budgets, n.Facts)
	if err != nil {
		return Change{}, err
	}
	err = set.change(n.Hold.NodeUID, hold.PodUID, func(d NodeDoc) (NodeDoc, error) { return Place(d, hold) })
	if err != nil {
		return Change{}, err
	}
	return Change{
		Mandate: &n.Mandate, Docs: set.docs, Budgets: budgets, Exclusives: n.Exclusives, Guards: n.Guards,
		Sign: Sign{NodeUID: n.Hold.NodeUID, Token: hold.Token, State: Held},
	}, nil
}

// upToDate requires that the facts have reached the documents' high-waters of pods.
func upToDate(step string, docs []NodeDoc, facts PodFacts) error {
	for _, d := range docs {
		if p := facts.PodProgress(); p == 0 || p < d.HighWater(KindPod) {
			return &RefusedError{Step: step, NodeUID: d.NodeUID, Reason: "the facts about pods are older than its high-water"}
		}
	}
	return nil
}
