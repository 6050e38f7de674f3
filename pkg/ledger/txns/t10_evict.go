package txns

import "github.com/berth-scheduler/berth/pkg/ledger"

// SoleEviction is the eviction of a pod that makes room for no other pod.
type SoleEviction struct {
	Token ledger.Token
	// Sender is the member that will send the eviction: see TakeEviction.
	Sender string
	// Victim is the pod, with its PodRV and all disruption budgets that cover it; Doc is its node's document, as
	// read.
	Victim  NodeEntry
	Doc     ledger.NodeDoc
	Budgets []BudgetRoom
	Facts   ClaimFacts
}

// ClaimEviction claims a pod from its budgets and marks it at once (T10), because there is no held place that could
// be lost between the two steps. From then on everything is as after MarkEvicting.
//
// Compares and puts: n/<uid> of the pod's node, b/<uid> of the budgets and b/ns/<namespace>. A crash before it
// leaves nothing, after it a claim like any that is Evicting. Errors are those of Nominate.
func ClaimEviction(x SoleEviction) (Change, error) {
	const step = "T10 evict"
	if err := upToDate(step, []ledger.NodeDoc{x.Doc}, x.Facts); err != nil {
		return Change{}, err
	}
	set := docSet{step: step, docs: []ledger.NodeDoc{x.Doc}}
	plan := ledger.EvictionID(x.Token)
	budgets, err := set.claim([]NodeEntry{x.Victim}, plan, x.Budgets, x.Facts)
	if err != nil {
		return Change{}, err
	}
	d := set.docs[0]
	i := d.VictimIndex(x.Victim.Entry.PodUID)
	d.Entries[i].State, d.Entries[i].Shard = ledger.Evicting, x.Sender
	return Change{Docs: []ledger.NodeDoc{d}, Budgets: budgets}, nil
}
