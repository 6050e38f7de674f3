package engine

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// preemptionCache is a class's cached state about preemption by pods of one priority on nodes with one shortage.
type preemptionCache struct {
	priority int32
	short    shortage
	budgets  *preempt.Budgets
	results  []nodeResult
	// what evaluates the rules about one node, and hard spread for the given shortage. spread is the filter of the
	// latter, nil for none; after is its position among all filters.
	what   *placement.WhatIf
	spread *shortFilter
	after  int16
	// reasons are the lists of reasons for which nodes were refused, numbered as in prospects.
	reasons [][]string
	numbers map[string]int32
	// trial tries nodes that lack only resources; nil if other rules depend on the pods too. lacking maps its
	// results to numbers of reasons.
	trial   *fitTrial
	lacking map[uint64]int32
}

// nodeResult is the result of trying one node.
type nodeResult struct {
	cost preempt.Cost
	// tried is the journal time as of which the result is valid, 0 for never.
	tried uint64
	// outcome is one of the constants below, or the number of the reasons.
	outcome int32
	// covered is set when budgets affected the result.
	covered bool
}

const (
	resultAbsent int32 = -1 - iota
	resultUnresolvable
	resultFits
	resultPlan
)

// maxPreemptionCaches bounds the combinations of priority and shortage for which one class keeps an outlook.
const maxPreemptionCaches = 4 + maxShortages

// setBudgets prepares the outlook for a query: if the budgets have changed, results that budgets affected are discarded.
func (o *preemptionCache) setBudgets(x *preempt.Search) {
	if x.Budgets == o.budgets {
		return
	}
	all := !x.Budgets.CoversLike(o.budgets)
	o.budgets = x.Budgets
	for slot := range o.results {
		if p := &o.results[slot]; all || p.covered {
			p.tried = 0
		}
	}
}

// number returns the number of a list of reasons.
func (o *preemptionCache) number(reasons []string) int32 {
	key := strings.Join(reasons, "\x00")
	id, ok := o.numbers[key]
	if !ok {
		id = int32(len(o.reasons))
		o.numbers[key] = id
		o.reasons = append(o.reasons, reasons)
	}
	return id
}

func (o *preemptionCache) bytes() int64 {
	const perSlot = 64
	return int64(len(o.results)) * perSlot
}
