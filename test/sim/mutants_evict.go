package sim

import (
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

// moveMutants remove parts of T12, and of the transactions that end it.
func moveMutants() []Mutant {
	played := func(rare bool, muted ...string) expected { return expected{rare: rare, family: moved, muted: muted} }
	return []Mutant{
		{
			Name: "move-place", expected: played(false), Missing: "the place that is kept for a replacement takes no room",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "T12" {
					return t
				}
				return places(w, t, func(_, put ledger.NodeDoc) []ledger.Entry {
					out := slices.Clone(put.Entries)
					for i := range out {
						if out[i].Role == ledger.RoleMove {
							out[i].Requests = nil
						}
					}
					return out
				})
			},
		},
		{
			Name: "move-compare", expected: played(true, "S3", "S4", "S12", "form"),
			Missing: "a place is kept without a compare of the documents",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "T12" {
					return t
				}
				return rebased(w, t)
			},
		},
		{
			Name: "take-over", expected: played(false), Missing: "who takes a place over leaves the placeholder",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn { return leaving(w, t, what == "T1") },
		},
		{
			Name: "place-release", expected: played(true),
			Missing: "places that nobody took, or whose eviction failed, are not released",
			txn:     func(w *world, what string, t ledger.Txn) ledger.Txn { return leaving(w, t, what != "T1") },
		},
	}
}

// places changes the entries that a transaction puts.
func places(w *world, t ledger.Txn, change func(now, put ledger.NodeDoc) []ledger.Entry) ledger.Txn {
	return docs(w, t, func(now, put ledger.NodeDoc) ledger.NodeDoc {
		put.Entries = change(now, put)
		return put
	})
}

// leaving has a transaction leave the placeholders that it would take out.
func leaving(w *world, t ledger.Txn, here bool) ledger.Txn {
	if !here {
		return t
	}
	return places(w, t, func(now, put ledger.NodeDoc) []ledger.Entry {
		out := slices.Clone(put.Entries)
		for _, m := range now.Entries {
			still := func(e ledger.Entry) bool { return e.Role == ledger.RoleMove && e.Token == m.Token }
			if m.Role == ledger.RoleMove && !slices.ContainsFunc(out, still) {
				out = append(out, m)
			}
		}
		return out
	})
}

func evictionMutants() []Mutant {
	claims := func(what string) bool { return what == "T2" || what == "evict-claim" }
	return []Mutant{
		{
			Name: "budget-compare", expected: expected{budgets: true, rare: true, muted: []string{"S12", "form"}},
			Missing: "claims do not compare the budget's document",
			txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
				if !claims(what) {
					return t
				}
				return without(t, true, func(key string) bool { return strings.HasPrefix(key, ledger.PrefixBudget) })
			},
		},
		{
			Name: "victim-compare", expected: expected{budgets: true, rare: true, muted: []string{"S3", "S4", "S12", "form"}},
			Missing: "claims do not compare the documents of victim and place",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "T2" {
					return t
				}
				return rebased(w, t)
			},
		},
		{
			Name: "evict-mark", expected: expected{rare: true, family: contested, muted: []string{"S5"}},
			Missing: "victims are not marked before they are evicted",
			txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "evict-mark" {
					return t
				}
				return docs(w, t, func(now, _ ledger.NodeDoc) ledger.NodeDoc { return now })
			},
		},
	}
}
