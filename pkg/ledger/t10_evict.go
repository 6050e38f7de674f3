package ledger

import "strings"

// planEviction is the prefix of the ids of evictions that make room for no pod.
const planEviction = "evict-"

// EvictionID returns the id of a plan that is one eviction and nothing else, requested with this token. Such a plan
// has no place, and its owner is the member that evicts.
func EvictionID(token Token) string { return planEviction + token.String() }

// IsEviction reports whether a plan is one eviction and nothing else.
func IsEviction(plan string) bool { return strings.HasPrefix(plan, planEviction) }

// SoleEviction is the eviction of a pod that makes room for no other pod.
type SoleEviction struct {
	Token Token
	// Sender is the member that will send the eviction: see TakeEviction.
	Sender string
	// Victim is the pod, with its PodRV and all disruption budgets that cover it; Doc is its node's document, as
	// read.
	Victim  NodeEntry
	Doc     NodeDoc
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
