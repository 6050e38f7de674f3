package engine

import (
	"strings"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
)

// failure describes a group of nodes that fail alike: the rule, and which of its reasons applies or which
// resources are lacking. It is comparable, so that counting needs no texts: 5,000 nodes usually have a handful of
// different failures.
type failure struct {
	verdict int16
	why     uint8
	lacks   uint64
}

// diagnose explains why no node passes. total is the number of candidates. The result is valid until a node
// changes, and is returned again until then.
func (c *class) diagnose(cols *columns.Columns, total int) placement.Diagnosis {
	if c.last.at == cols.Journal.Now && c.last.diagnosis.NodesTotal() == total {
		return c.last.diagnosis
	}
	counts, examples := c.failures(cols)
	groups := make([]placement.Group, 0, len(counts))
	for f, count := range counts {
		g := placement.Group{Plugin: strings.Join(c.plan.onlyBy, ","), Reasons: c.reasons(cols, f, examples[f]), Nodes: count}
		if f.verdict >= 0 {
			g.Plugin = c.plan.filters[f.verdict].Plugin
		}
		groups = append(groups, g)
	}
	c.last = lastDiagnosis{placement.DiagnosisOf(total, c.plan.onlyBy, groups), cols.Journal.Now}
	return c.last.diagnosis
}

// failures counts the nodes that fail in the same way, with an example of each: a slot, for rules whose reasons
// have to be asked for. Neighbouring nodes often fail alike, so that a map is used only where the failure
// changes.
func (c *class) failures(cols *columns.Columns) (counts map[failure]int32, examples map[failure]int) {
	counts, examples = map[failure]int32{}, map[failure]int{}
	fits := c.plan.fits()
	var (
		last failure
		run  int32 // consecutive nodes that fail alike, not yet counted
	)
	for slot := range c.cells {
		if c.cells[slot].verdict == placement.VerdictAbsent {
			continue
		}
		var f failure
		f.verdict, f.why = c.firstRejection(slot)
		if f.verdict >= 0 && fits[f.verdict] != nil {
			f.lacks = fits[f.verdict].lacks(&cols.Resources, slot)
		}
		// The run ends: count it, so that the map is touched once per run.
		if run > 0 && f != last {
			counts[last] += run
			run = 0
		}
		if run == 0 {
			examples[f] = slot
		}
		last = f
		run++
	}
	counts[last] += run
	return counts, examples
}

// firstRejection returns the first rule that rejects a node, including the rules beyond one node, and which of
// its reasons applies. A rule beyond one node counts only if it comes before the node's own verdict in the
// profile.
func (c *class) firstRejection(slot int) (int16, uint8) {
	v, why := c.cells[slot].verdict, c.cells[slot].why
	if v != c.cells[slot].static {
		why = 0
	}
	if !c.crossNode.active || v < placement.VerdictPass {
		return v, why
	}
	c.values(slot)
	for i, j := range c.crossNode.filters {
		index := c.plan.crossNode[i]
		// The node's own verdict comes first in the profile.
		if v != placement.VerdictPass && index > v {
			break
		}
		if ok, reason := j.passes(c.crossNode, c.groups.tuple[maxScaledScores:]); !ok {
			return index, reason
		}
	}
	return v, why
}

// passesCrossNode reports whether the rules beyond one node let a node pass. It computes the values of the node
// instead of using its group, because a node that rules narrowed out is in none.
func (c *class) passesCrossNode(slot int) bool {
	if !c.crossNode.active {
		return true
	}
	c.values(slot)
	return c.crossNode.passes(c.groups.tuple[maxScaledScores:])
}

// fits returns the fit rules by their index in filters; nil at the other indexes.
func (p *plan) fits() []*fitUse {
	fits := make([]*fitUse, len(p.filters))
	for i := range p.uses {
		if p.uses[i].fit != nil {
			fits[p.uses[i].index] = p.uses[i].fit
		}
	}
	return fits
}

// reasons returns a rule's reasons for the nodes with a failure, of which example is one. They equal those of the
// rule's Explain, which is called where the engine does not know the reasons itself.
func (c *class) reasons(cols *columns.Columns, f failure, example int) []string {
	if f.verdict == placement.VerdictNarrowed {
		return []string{placement.NarrowedReason(c.plan.onlyBy)}
	}
	if c.crossNode.active {
		switch c.plan.filters[f.verdict].Filter.(type) {
		case *spread.Filter:
			return []string{spread.Reasons[f.why]}
		case *podaffinity.Filter:
			return []string{podaffinity.Reasons[f.why]}
		}
	}
	for i := range c.plan.uses {
		if u := &c.plan.uses[i]; u.index == f.verdict && u.fit != nil {
			return u.fit.reasons(f.lacks)
		}
	}
	return c.plan.filters[f.verdict].Filter.Explain(cols.Infos[example])
}
