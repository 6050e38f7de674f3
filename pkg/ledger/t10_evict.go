package ledger

import "strings"

// planEviction is what the id of an eviction begins with that makes room for nobody.
const planEviction = "evict-"

// EvictionID is the id of the plan that is one eviction and nothing else, asked for with this
// token. Such a plan has no place, and whoever evicts is its owner.
func EvictionID(token Token) string { return planEviction + token.String() }

// IsEviction says whether a plan is one eviction and nothing else.
func IsEviction(plan string) bool { return strings.HasPrefix(plan, planEviction) }

// SoleEviction is a pod that is to be evicted for no other's sake.
type SoleEviction struct {
	Token Token
	// Sender is the member that will send the eviction: see TakeEviction.
	Sender string
	// Victim is the pod, with its PodRV and all disruption budgets that cover it; Doc its
	// node's document, as read.
	Victim  NodeEntry
	Doc     NodeDoc
	Budgets []BudgetRoom
	Facts   ClaimFacts
}

// ClaimEviction claims a pod from its budgets and marks it at once (T10): nobody has a place
// that could be lost between the two. From then on everything is as after MarkEvicting.
//
// Compares and puts: n/<uid> of the pod's node, b/<uid> of the budgets and b/ns/<namespace>. A crash before it leaves
// nothing; after it a claim like any that is Evicting. Errors are those of Nominate.
func ClaimEviction(x SoleEviction) (Change, error) {
	const step = "T10 evict"
	if err := upToDate(step, []NodeDoc{x.Doc}, x.Facts); err != nil {
		return Change{}, err
	}
	set := docSet{step: step, docs: []NodeDoc{x.Doc}}
	plan := EvictionID(x.Token)
	budgets, err := set.claim([]NodeEntry{x.Victim}, plan, x.Budgets, x.Facts)
	if err != nil {
		return Change{}, err
	}
	d := set.docs[0]
	i := d.victim(x.Victim.Entry.PodUID)
	d.Entries[i].State, d.Entries[i].Shard = Evicting, x.Sender
	return Change{Docs: []NodeDoc{d}, Budgets: budgets}, nil
}
