package engine

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/fittrial"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// plan holds the rules of a profile compiled for the pods of a class, sorted by which parts of a node they read.
// It is immutable, except for the counters that it points to.
//
// The sorting decides how often a rule is evaluated:
//
//   - byTraits: once per combination of taints, cordon and declared features (class.traits);
//   - byNode: once per change of the Node object (cell.static);
//   - uses: once per change of the node, the pods on it included (cell.verdict);
//   - crossNode: once per group and decision (rating.list).
//
// A verdict is the index of the first filter that rejects, in the order of the profile, so that an answer names
// the same rule as upstream. Each step therefore stops at the verdict of the step before it: a rule behind that
// one cannot be the first.
type plan struct {
	// pod is the pod that the class was created for. Rules may read it only in what all pods of the class have in
	// common.
	pod *state.Pod
	// err is the result of every attempt; scorerErr is the result of attempts that must compare nodes.
	err, scorerErr error
	// rejected rejects the pods of the class on all nodes; nothing below is set then.
	rejected *placement.Rejection
	// only holds the node names that the rules allow, sorted, nil for all; onlyBy holds the rules that narrowed
	// them down.
	only, onlyBy []string
	filters      []placement.ActiveFilter
	// byTraits and byNode are indexes of filters that read only the traits or only the Node object.
	byTraits, byNode []int16
	// crossNode are indexes of the filters beyond one node, in the order of crossNodeState.filters.
	crossNode []int16
	// uses are the filters that read the pods or the resources in use on a node, in the order of the profile.
	uses []useFilter
	scoring
	counters ruleCounters
	// scratch reports that the engine keeps no columns for some rules, so that the pod is evaluated from scratch.
	// uncompiled reports, in addition, that the rules have not even been compiled, because the result depends on
	// each pod's volumes.
	scratch, uncompiled bool
}

// scoring holds those scoring rules that read a single node. A rule that does not score is nil or has the weight
// 0.
type scoring struct {
	usage  usageScore
	image  *imagePlan
	taints *nodes.TaintScorer
	stages stages
}

// traitRow evaluates the rules that read traits, on any node that has them.
func (p *plan) traitRow(n *state.NodeInfo) traitRow {
	row := traitRow{known: true, verdict: placement.VerdictPass}
	for _, i := range p.byTraits {
		if p.recordCheck(i, p.filters[i].Filter.Check(n)) != rule.Success {
			row.verdict = i
			break
		}
	}
	if p.taints != nil {
		row.taints = int32(p.taints.Score(n))
	}
	return row
}

// narrows reports whether the rules narrowed a node out, by its name. Source: PreFilterResult.NodeNames upstream.
func (p *plan) narrows(n *state.NodeInfo) bool {
	if p.only == nil {
		return false
	}
	_, found := slices.BinarySearch(p.only, n.Node.Name)
	return !found
}

// nodeVerdict returns the verdict of the rules that read a node's object, including its traits, and which of
// several reasons the rule gives. byTraits is the verdict of the rules about traits.
func (p *plan) nodeVerdict(n *state.NodeInfo, byTraits int16) (verdict int16, why uint8) {
	for _, i := range p.byNode {
		if byTraits != placement.VerdictPass && byTraits < i {
			break
		}
		if p.recordCheck(i, p.filters[i].Filter.Check(n)) != rule.Success {
			return i, variantOf(p.filters[i].Filter, n)
		}
	}
	return byTraits, 0
}

// variant is a filter that gives one of several reasons, identified by small numbers, so that nodes can be
// grouped by reason without a text for each (class.failures). 0 is the only reason of other filters.
type variant interface{ Variant(n *state.NodeInfo) uint8 }

func variantOf(f rule.Filter, n *state.NodeInfo) uint8 {
	if v, ok := f.(variant); ok {
		return v.Variant(n)
	}
	return 0
}

// maxHeld is the largest number of images of one pod that the engine distinguishes.
const maxHeld = 32

// imagePlan is ImageLocality compiled for a class.
type imagePlan struct {
	nodes.ImageScorer
	weight int64
}

// stage identifies where the points of one rule come from, for Result.Weighed and for counting calls.
type stage struct {
	source source
	// index is the index among the scaled scores, or among the scorers beyond one node.
	index int
}

// stages holds the scorers in the order of the profile, and their names.
type stages struct {
	list  []stage
	names []string
}

// source is the part of a class that holds the points of a rule.
type source uint8

// Each source is one part of class or rating; see Engine.appendPoints.
const (
	fromFit source = iota
	fromBalance
	fromImage
	fromScaled
	fromTally
)

// ruleCounters is the plan's part of the profiler: a counter per filter, and one per stage of scoring.
type ruleCounters struct {
	profiler       *profiler
	filters, score []*uint64
}

// preFilterCode returns the result of the rules that evaluate only the pod.
func (p *plan) preFilterCode() rule.Code {
	if p.rejected != nil {
		return rule.UnschedulableAndUnresolvable
	}
	return rule.Success
}

// recordCheck counts a call of a filter for a node and returns its code. The counter is found by index, without a
// map, because this runs for every rule of every changed node.
func (p *plan) recordCheck(index int16, code rule.Code) rule.Code {
	*p.counters.filters[index]++
	p.counters.profiler.endRule(PointFilter, p.filters[index].Plugin, code)
	return code
}

// recordGroupChecks counts the calls of the rules beyond one node, which decide for groups of nodes.
func (p *plan) recordGroupChecks(groups int) {
	for _, index := range p.crossNode {
		*p.counters.filters[index] += uint64(groups)
		p.counters.profiler.endRule(PointFilter, p.filters[index].Plugin, rule.Success)
	}
}

// recordScores counts the calls of a scorer; index is its index among those of its source.
func (p *plan) recordScores(from source, index, times int) {
	for i, s := range p.stages.list {
		if s.source == from && s.index == index {
			*p.counters.score[i] += uint64(times)
			p.counters.profiler.endRule(PointScore, p.stages.names[i], rule.Success)
			return
		}
	}
}

// usageVerdict evaluates the rules about usage, given the verdict of the others.
func (p *plan) usageVerdict(cols *columns.Columns, slot int, verdict int16) int16 {
	for i := range p.uses {
		u := &p.uses[i]
		if verdict != placement.VerdictPass && u.index > verdict {
			break
		}
		code := rule.Success
		if !u.passes(cols, slot) {
			code = rule.Unschedulable
		}
		if p.recordCheck(u.index, code) != rule.Success {
			return u.index
		}
	}
	return verdict
}

// traitRow is the class's cached state about nodes with the same traits: the first filter of plan.byTraits that
// rejects them, and the raw score of taints.
type traitRow struct {
	known   bool
	verdict int16
	taints  int32
}

// newFitTrial returns nil if rules other than NodeResourcesFit read the pods on a node, or if that rule reads too
// many resources for the bits of lacks.
func (p *plan) newFitTrial() *fittrial.Trial {
	if len(p.uses) != 1 || p.uses[0].fit == nil {
		return nil
	}
	fit, ok := p.filters[p.uses[0].index].Filter.(fit.Filter)
	if !ok || len(fit.Extended) > maxNeeds {
		return nil
	}
	return fittrial.New(&fit)
}
