package sim

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

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
