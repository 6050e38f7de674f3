package engine

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// relateSpread adds a pod of a kind to the tallies of the constraints that count it. tallies has one entry per
// constraint.
func relateSpread(s *spread.Spread, w *crossNodeState, tallies []int, k *state.PodClass) {
	for i := range s.Constraints {
		if s.CountsKind(&s.Constraints[i], k) {
			w.contribute(tallies[i], 1)
		}
	}
}

// spreadTallyFilter is spread.Filter computed from tallies. The embedded filter only provides the constraints.
type spreadTallyFilter struct {
	*spread.Filter
	// tallies and columns have one entry per constraint: indexes in the crossNodeState.
	tallies, columns []int
	// limits holds, per constraint, the largest number of pods that a domain may have before the pod is placed,
	// as of prepare: minimum + maxSkew - self. self is 1 where the pod itself will count.
	limits, self []int64
	judged       []uint64 // the versions of the tallies that limits are based on
	// unsure holds, per constraint, the tally of the pods that may or may not count; noTally while there are none.
	// left holds the totals of these that limits are based on.
	unsure []int
	left   []int64
}

// noTally stands for a tally that is not needed.
const noTally = -1

// anyVersion is a version that no tally ever has.
const anyVersion = math.MaxUint64

// newSpreadTallyFilter adds a selective tally and a column per constraint: nodes that the constraint does not
// include (by node affinity or taints) neither count nor form a domain.
func newSpreadTallyFilter(cols *columns.Columns, w *crossNodeState, f *spread.Filter) *spreadTallyFilter {
	j := &spreadTallyFilter{Filter: f}
	for i := range f.Constraints {
		c := &f.Constraints[i]
		t := &columns.Tally{Axis: cols.Axis(c.Key), Selective: true}
		j.tallies = append(j.tallies, w.newTally(t))
		j.columns = append(j.columns, w.newColumn(columns.NewColumn(t)))
		j.self = append(j.self, 0)
		if c.Selector.Matches(labels.Set(f.Pod.Template.Labels)) {
			j.self[i] = 1
		}
		j.judged = append(j.judged, anyVersion)
		j.unsure, j.left = append(j.unsure, noTally), append(j.left, 0)
	}
	j.limits = make([]int64, len(j.tallies))
	return j
}

// relate counts a pod of a kind, and in addition counts one that may or may not match because its labels were
// cut.
func (j *spreadTallyFilter) relate(w *crossNodeState, _ *columns.Columns, k *state.PodClass) {
	relateSpread(&j.Spread, w, j.tallies, k)
	for i := range j.Constraints {
		c := &j.Constraints[i]
		if !j.CountsKind(c, k) || k.MustMatch(c.Selector) {
			continue
		}
		if j.unsure[i] == noTally {
			j.unsure[i] = w.newTally(&columns.Tally{})
		}
		w.contribute(j.unsure[i], 1)
	}
}

// restate determines which constraints include a node. A node that lacks the key of any constraint counts in
// none.
func (j *spreadTallyFilter) restate(w *crossNodeState, slot int, n *state.NodeInfo) {
	complete := spread.HasKeys(n.Node.Object.Labels, j.Constraints)
	for i, t := range j.tallies {
		w.tallies[t].Included[slot] = complete && j.Includes(&j.Constraints[i], n.Node)
	}
}

// prepare computes limits from the smallest domain. It looks at all domains, but only after a tally has changed.
// With fewer domains than minDomains, the smallest counts as empty. Source:
// plugins/podtopologyspread/filtering.go.
func (j *spreadTallyFilter) prepare(w *crossNodeState, _ *columns.Columns) {
	for i, number := range j.tallies {
		t, c := w.tallies[number], &j.Constraints[i]
		unsure := int64(0)
		if j.unsure[i] != noTally {
			unsure = w.tallies[j.unsure[i]].Total
		}
		if j.judged[i] == t.Version && j.left[i] == unsure {
			continue
		}
		j.judged[i], j.left[i] = t.Version, unsure
		least, domains := t.Fewest()
		if domains < c.MinDomains {
			least = 0
		}
		j.limits[i] = spread.LeastOf(least, unsure) + int64(c.MaxSkew) - j.self[i]
	}
}

// passes compares the domains of a group with limits. A node without a key cannot pass, whatever its other
// domains are.
func (j *spreadTallyFilter) passes(w *crossNodeState, values []int64) (bool, uint8) {
	for i, column := range j.columns {
		sum, ok := w.columns[column].Sum(values[column])
		if !ok {
			return false, spread.LacksKey
		}
		if sum > j.limits[i] {
			return false, spread.OverSkew
		}
	}
	return true, 0
}

// spreadTallyScorer is spread.Scorer computed from tallies.
type spreadTallyScorer struct {
	*spread.Scorer
	weight int64
	// tallies and columns have one entry per constraint; leftColumn is the column that flags the nodes that are
	// left out.
	tallies, columns []int
	leftColumn       int
	// marked has one entry per constraint and domain. A domain has a feasible node, as of the last weigh, if its
	// entry equals mark; increasing mark clears all entries at once.
	marked [][]uint32
	mark   uint32
	// weights has one entry per constraint, as of rate.
	weights []float64
}

// newSpreadTallyScorer adds a tally and a column per constraint. A constraint over hostnames has no domains but
// counts the pods of the node itself, as upstream does, whether or not two nodes have the same hostname label.
func newSpreadTallyScorer(cols *columns.Columns, w *crossNodeState, weight int64, s *spread.Scorer) *spreadTallyScorer {
	r := &spreadTallyScorer{Scorer: s, weight: weight, leftColumn: w.newColumn(columns.Column{How: columns.ColumnFlag})}
	for i := range s.Constraints {
		t := &columns.Tally{Axis: cols.Axis(s.Constraints[i].Key), Selective: true, CountsMissing: true}
		c := columns.NewColumn(t)
		if s.Constraints[i].Key == corev1.LabelHostname {
			t = &columns.Tally{} // its pods are counted node by node
			c = columns.Column{Tally: t, How: columns.ColumnPerNode, Hostname: cols.Axis(corev1.LabelHostname)}
		}
		r.tallies = append(r.tallies, w.newTally(t))
		r.columns = append(r.columns, w.newColumn(c))
	}
	r.marked = make([][]uint32, len(r.tallies))
	r.weights = make([]float64, len(r.tallies))
	return r
}

func (r *spreadTallyScorer) relate(w *crossNodeState, _ *columns.Columns, k *state.PodClass) {
	relateSpread(&r.Spread, w, r.tallies, k)
}

// restate determines whether a node is left out, and which constraints include it.
func (r *spreadTallyScorer) restate(w *crossNodeState, slot int, n *state.NodeInfo) {
	left := &w.columns[r.leftColumn]
	if lack := slot + 1 - len(left.Flags); lack > 0 {
		left.Flags = columns.GrowBy(left.Flags, lack, false)
	}
	left.Flags[slot] = r.LeavesOut(n)
	for i, number := range r.tallies {
		if t := w.tallies[number]; t.Selective {
			t.Included[slot] = !left.Flags[slot] && r.Includes(&r.Constraints[i], n.Node)
		}
	}
}

// rate is Survey, Score and Normalize of spread.Scorer for all groups: the weights of the constraints first,
// because they depend on which domains have a feasible node, then the raw scores, then their scale. Fewer pods
// are better.
func (r *spreadTallyScorer) rate(w *crossNodeState, g *groups, list *groupList) {
	r.weigh(w, g, list)
	low, high := int64(math.MaxInt64), int64(0)
	for i := range list.ids {
		values := list.crossNodeValues(g, i)
		if r.isLeft(values) {
			continue
		}
		list.raw[i] = r.rawScore(w, values)
		low, high = min(low, list.raw[i]), max(high, list.raw[i])
	}
	for i := range list.ids {
		switch {
		case r.isLeft(list.crossNodeValues(g, i)):
		case high == 0:
			list.sums[i] += r.weight * rule.MaxScore
		default:
			list.sums[i] += r.weight * (rule.MaxScore * (high + low - list.raw[i]) / high)
		}
	}
}

// isLeft reports whether the nodes of a group are left out: they get no points.
func (r *spreadTallyScorer) isLeft(values []int64) bool { return values[r.leftColumn] != 0 }

// weigh computes the weight of every constraint: the logarithm of the number of its domains, plus 2. A constraint
// over hostnames has one domain per feasible node. Source: topologyNormalizingWeight in
// plugins/podtopologyspread/scoring.go.
func (r *spreadTallyScorer) weigh(w *crossNodeState, g *groups, list *groupList) {
	scored := 0
	for i, n := range list.nodes {
		if !r.isLeft(list.crossNodeValues(g, i)) {
			scored += int(n)
		}
	}
	r.mark++
	for i, number := range r.tallies {
		domains := scored
		if t := w.tallies[number]; t.Axis != nil {
			domains = r.markDomains(g, list, i, t)
		}
		r.weights[i] = math.Log(float64(domains + 2))
	}
}

// markDomains counts the domains that have a feasible node which is not left out. Nodes without the key belong to
// the domain "".
func (r *spreadTallyScorer) markDomains(g *groups, list *groupList, i int, t *columns.Tally) int {
	count := 0
	for entry := range list.ids {
		values := list.crossNodeValues(g, entry)
		if r.isLeft(values) {
			continue
		}
		d := int(t.Axis.Domain(""))
		if v := values[r.columns[i]]; v != columns.NoDomainValue {
			d = int(v)
		}
		if lack := d + 1 - len(r.marked[i]); lack > 0 {
			r.marked[i] = columns.GrowBy(r.marked[i], lack, 0)
		}
		if r.marked[i][d] != r.mark {
			r.marked[i][d] = r.mark
			count++
		}
	}
	return count
}

// rawScore is Score; it adds the terms in the order of the constraints, because sums of floats depend on the order.
func (r *spreadTallyScorer) rawScore(w *crossNodeState, values []int64) int64 {
	var score float64
	for i, column := range r.columns {
		if sum, ok := w.columns[column].Sum(values[column]); ok {
			score += float64(sum)*r.weights[i] + float64(r.Constraints[i].MaxSkew-1)
		}
	}
	return int64(math.Round(score))
}
