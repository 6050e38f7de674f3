package sim

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
)

func evictionMutants() []Mutant {
	claims := func(what string) bool { return what == "T2" || what == "evict-claim" }
	return []Mutant{
		{
			Name: "budget-compare", budgets: true, rare: true, Missing: "claims do not compare the budget's document",
			muted: []string{"S12", "form"}, txn: func(_ *world, what string, t ledger.Txn) ledger.Txn {
				if !claims(what) {
					return t
				}
				return without(t, true, func(key string) bool { return strings.HasPrefix(key, ledger.PrefixBudget) })
			},
		},
		{
			Name: "victim-compare", budgets: true, rare: true, Missing: "claims do not compare the documents of victim and place",
			muted: []string{"S3", "S4", "S12", "form"}, txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "T2" {
					return t
				}
				return rebased(w, t)
			},
		},
		{
			Name: "evict-mark", budgets: true, rare: true, Missing: "victims are not marked before they are evicted",
			muted: []string{"S5"}, txn: func(w *world, what string, t ledger.Txn) ledger.Txn {
				if what != "evict-mark" {
					return t
				}
				return docs(w, t, func(now, _ ledger.NodeDoc) ledger.NodeDoc { return now })
			},
		},
	}
}
