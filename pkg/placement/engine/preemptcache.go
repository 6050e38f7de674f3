package engine

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/fittrial"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
)

// preemptionCache is a class's cached state about preemption by pods of one priority on nodes with one shortage:
// what happened when each node was tried. It makes a preemption storm affordable: a thousand pods of one
// Deployment that fit nowhere try all nodes once, and after that only the nodes that changed.
//
// A result stays valid until the node changes in the journal (pods, object, marks, protected pods), one of its pods
// is swapped for another version, or the budgets that affected it change. Pods on other nodes do not matter, because
// all victims are on the node itself; what hard spread needs to know of them is the shortage.
type preemptionCache struct {
	priority int32
	short    shortage
	// budgets are those of the last query; results has one entry per slot.
	budgets *preempt.Budgets
	results []nodeResult
	// what evaluates the rules about one node, and hard spread for the given shortage. spread is the filter of
	// the latter, nil for none; after is its position among all filters.
	what   *placement.WhatIf
	spread *shortFilter
	after  int16
	// reasons are the lists of reasons for which nodes were refused; numbers maps a list, joined, to its index,
	// which is the outcome of a result. Thousands of nodes share a handful of lists.
	reasons [][]string
	numbers map[string]int32
	// trial tries nodes that lack only resources; nil if other rules depend on the pods too. lacking maps its
	// results to numbers of reasons.
	trial   *fittrial.Trial
	lacking map[uint64]int32
}

// nodeResult is the result of trying one node.
type nodeResult struct {
	// cost is that of the plan, for resultPlan.
	cost preempt.Cost
	// tried is the time as of which the result is valid, the zero value for never.
	tried columns.Time
	// outcome is one of the constants below, or the number of the reasons.
	outcome int32
	// covered is set when budgets affected the result.
	covered bool
}

// Outcomes of trying a node that are not lists of reasons.
const (
	// resultAbsent: the slot has no node, or the node is not a candidate.
	resultAbsent int32 = -1 - iota
	// resultUnresolvable: a rule rejects the node whichever pods are evicted.
	resultUnresolvable
	// resultFits: the pod fits without an eviction, so that the query was a mistake.
	resultFits
	// resultPlan: the pod fits when the victims are gone; cost is the cost of evicting them.
	resultPlan
)

// maxPreemptionCaches bounds the combinations of priority and shortage for which one class keeps a cache: those
// of one query, and a few priorities.
const maxPreemptionCaches = 4 + maxShortages

// setBudgets prepares the cache for a query. If the budgets have changed but cover the same pods, only the
// results that budgets affected are discarded; otherwise all, because other pods may be covered now.
func (o *preemptionCache) setBudgets(x *preempt.Search) {
	if x.Budgets == o.budgets {
		return
	}
	all := !x.Budgets.CoversLike(o.budgets)
	o.budgets = x.Budgets
	for slot := range o.results {
		if p := &o.results[slot]; all || p.covered {
			p.tried = columns.Time{}
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

// bytes estimates the memory of the cache in bytes.
func (o *preemptionCache) bytes() int64 {
	const perSlot = 72
	return int64(len(o.results)) * perSlot
}
