package view

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Placeholder is a place that is kept for the replacement of a pod that is moved.
type Placeholder struct {
	Node  *state.NodeInfo
	Entry ledger.Entry
}

// PlaceholdersFor returns the places that a pod could take over: those for its owner and template, in its namespace,
// without those that a staged pod has taken. The places of pods that have left or are leaving come first, as the
// pod replaces one of those, then the places of pods that still stay and would not be evicted any more. Apart from
// that the order differs from pod to pod, so that the replacements of one owner do not all try the same place. The
// cost is negligible while no place is kept.
func (v *View) PlaceholdersFor(p *state.Pod) []Placeholder {
	if len(v.kept.byOwner) == 0 {
		return nil
	}
	r, ok := ReplacementOf(p)
	if !ok {
		return nil
	}
	var out []Placeholder
	for _, token := range v.kept.byOwner[r.Owner] {
		doc, e, ok := v.ledger.Plans().Owner(ledger.PlanID(token, false))
		if !ok || e.Replacement != r || e.Namespace != p.Namespace || v.kept.taken[token] {
			continue
		}
		if n, ok := v.Node(doc.NodeUID); ok {
			out = append(out, Placeholder{n, e})
		}
	}
	rank := func(k Placeholder) uint64 { return xxhash.Sum64String(p.UID + k.Entry.Token.String()) }
	slices.SortFunc(out, func(a, b Placeholder) int {
		return cmp.Or(v.stays(a)-v.stays(b), cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Entry.Token, b.Entry.Token))
	})
	return out
}

// stays returns 1 for the place of a pod that shows no sign of leaving yet, else 0.
func (v *View) stays(k Placeholder) int {
	doc, victim, claimed := v.ledger.Plans().Victim(k.Entry.PodUID)
	if !claimed || doc.NodeUID == "" {
		return 0
	}
	if p, known := v.facts.snapshot.Pod(victim.PodUID); known && !p.Deleting && !p.Terminal {
		return 1
	}
	return 0
}

// PlaceholdersOn returns the placeholders on a node for pods of lower priority than the given one, which a pod of that
// priority could oust. It omits those that a staged pod has taken.
func (v *View) PlaceholdersOn(nodeUID string, priority int32) []ledger.Entry {
	d, _ := v.ledger.Doc(nodeUID)
	var out []ledger.Entry
	for _, e := range d.Entries {
		if e.Role == ledger.RoleMove && e.Priority < priority && !v.kept.taken[e.Token] {
			out = append(out, e)
		}
	}
	return out
}
