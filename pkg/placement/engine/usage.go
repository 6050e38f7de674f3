package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// useFilter is a rule about usage: a fit computed from columns, or a filter without columns, such as host ports.
type useFilter struct {
	index  int16
	fit    *fitUse
	filter rule.Filter
}

// passes evaluates the rule for one node. Only a filter without columns costs an interface call.
func (u *useFilter) passes(cols *columns.Columns, slot int) bool {
	if u.fit != nil {
		return u.fit.passes(&cols.Resources, slot)
	}
	return u.filter.Check(cols.Infos[slot]) == rule.Success
}

// fitUse is fit.Filter computed from columns: a node passes if it has a free place for a pod and, for each need,
// as much of the resource left as is requested. Resources that the pod does not request are not compared, even
// where the node has less than nothing left of them. Source: plugins/noderesources/fit.go fitsRequest.
type fitUse struct {
	needs []need
	// impossible reports that a resource is requested that no node has. When a node appears that has it, the
	// columns get another version and the plan is made again.
	impossible bool
}

// need is a requested amount, more than 0, in the units of resources.Resources (milli-CPU, bytes, counts); place
// is its position in a row of the columns, -1 when no node has the resource.
type need struct {
	place int
	value int64
	name  string
}

// maxNeeds is the largest number of extended resources of one pod: with cpu, memory, ephemeral storage and pods,
// they fill the 64 bits of a set of lacks. Pods that request more are decided from scratch.
const maxNeeds = 60

// newFitUse resolves the names of the requested resources to positions in the columns. index is that of the
// filter in plan.filters.
func newFitUse(r *columns.Resources, index int16, f fit.Filter) useFilter {
	use := &fitUse{}
	add := func(name string, value int64) {
		if value <= 0 {
			return
		}
		place, ok := r.Place(name)
		if !ok {
			place, use.impossible = -1, true
		}
		use.needs = append(use.needs, need{place, value, name})
	}
	add("cpu", f.Request.MilliCPU)
	add("memory", f.Request.Memory)
	add("ephemeral-storage", f.Request.EphemeralStorage)
	for _, x := range f.Extended {
		add(x.Name, x.Value)
	}
	return useFilter{index: index, fit: use}
}

// passes is called for every change of a node in every class: it reads one row of the columns, which is
// contiguous.
func (f *fitUse) passes(r *columns.Resources, slot int) bool {
	capacity, used, _ := r.Row(slot)
	if f.impossible || used[columns.RowPods] >= capacity[columns.RowPods] {
		return false
	}
	for i := range f.needs {
		if n := &f.needs[i]; n.value > capacity[n.place]-used[n.place] {
			return false
		}
	}
	return true
}

// lacks returns the resources that a node lacks: bit 0 for pods, bit i+1 for needs[i]. It is for diagnoses, which
// need all of them where passes stops at the first.
func (f *fitUse) lacks(r *columns.Resources, slot int) uint64 {
	var set uint64
	capacity, used, _ := r.Row(slot)
	if used[columns.RowPods] >= capacity[columns.RowPods] {
		set |= 1
	}
	for i := range f.needs {
		if n := &f.needs[i]; n.place < 0 || n.value > capacity[n.place]-used[n.place] {
			set |= 2 << i
		}
	}
	return set
}

// reasons returns the filter's reasons for a set of lacks, in upstream's words.
func (f *fitUse) reasons(lacks uint64) []string {
	var list []string
	if lacks&1 != 0 {
		list = append(list, fit.TooManyPods)
	}
	for i := range f.needs {
		if lacks&(2<<i) != 0 {
			list = append(list, fit.Insufficient(f.needs[i].name))
		}
	}
	return list
}

// usageScore is the weighted sum of the scores that depend only on the usage of a node: NodeResourcesFit by a
// strategy and NodeResourcesBalancedAllocation.
type usageScore struct {
	fit, balance             usageRow
	fitScorer                fit.Scorer
	balanceScorer            fit.BalanceScorer
	fitWeight, balanceWeight int64 // 0: the rule does not score
}

// score returns the weighted sum for one node, once so many pods like the one to place run there in addition. It needs
// no allocation for up to fit.UsualDemands resources.
func (u *usageScore) score(r *columns.Resources, slot int, pods int64) int64 {
	var (
		room [fit.UsualDemands]fit.Share
		sum  int64
	)
	if u.fitWeight != 0 {
		shares := u.fit.read(room[:0], r, slot)
		u.fitScorer.AddPods(shares, pods)
		sum += u.fitWeight * u.fitScorer.OfShares(shares)
	}
	if u.balanceWeight != 0 {
		shares := u.balance.read(room[:0], r, slot)
		u.balanceScorer.AddPods(shares, pods)
		sum += u.balanceWeight * u.balanceScorer.OfShares(shares)
	}
	return sum
}

// usageRow holds the positions of a scorer's demands in the columns.
type usageRow []usagePlace

// usagePlace is where the amounts of one resource are in a row of the columns.
type usagePlace struct {
	place int // in a row; -1 when no node has it
	// nonzero is the position in the pair of amounts in use with defaults; -1 for the plain amount in use.
	nonzero int
}

// newUsageRow resolves the names of demands. withDefaults selects, for cpu and memory, the amounts in use that
// count containers without requests with defaults: NodeResourcesFit scores by these, balance by the plain
// requests.
func newUsageRow(r *columns.Resources, demands []fit.Demand, withDefaults bool) usageRow {
	row := make(usageRow, len(demands))
	for i, d := range demands {
		row[i] = usagePlace{place: -1, nonzero: -1}
		if place, ok := r.Place(d.Name); ok && place != columns.RowPods {
			row[i].place = place
		}
		if withDefaults && (row[i].place == columns.RowCPU || row[i].place == columns.RowMemory) {
			row[i].nonzero = row[i].place
		}
	}
	return row
}

// read appends the node's share of each demand. A resource that no node has is a share of zero, which scorers
// ignore.
func (u usageRow) read(to []fit.Share, r *columns.Resources, slot int) []fit.Share {
	capacity, used, nonzero := r.Row(slot)
	for _, p := range u {
		switch {
		case p.place < 0:
			to = append(to, fit.Share{})
		case p.nonzero >= 0:
			to = append(to, fit.Share{Capacity: capacity[p.place], Used: nonzero[p.nonzero]})
		default:
			to = append(to, fit.Share{Capacity: capacity[p.place], Used: used[p.place]})
		}
	}
	return to
}
