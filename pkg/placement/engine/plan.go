package engine

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// plan holds the rules of a profile compiled for the pods of a class, sorted by which parts of a node they read. It
// is immutable.
type plan struct {
	pod *state.Pod
	// err is the result of every attempt; scorerErr is the result of attempts that must compare nodes.
	err, scorerErr error
	rejected       *placement.Rejection
	only, onlyBy   []string
	filters        []placement.ActiveFilter
	// byTraits and byNode are indexes of filters that read only the traits or only the Node object.
	byTraits, byNode []int16
	// judges are indexes of the filters beyond one node, in the order of wide.judges.
	judges []int16
	uses   []useFilter
	scoring
	watched watched
	// scratch reports that the engine keeps no columns for some rules, so that the pod is evaluated from scratch.
	// uncompiled reports, in addition, that the rules have not even been compiled, because the result depends on
	// each pod's volumes.
	scratch, uncompiled bool
}

// scoring holds those scoring rules that read a single node.
type scoring struct {
	usage  usageScore
	image  *imagePlan
	taints *nodes.TaintScorer
	stages stages
}

// nodeReader is a filter that reads only a node's object, so that its result stays the same until the object
// changes.
type nodeReader interface {
	// OnlyTraits reports whether it reads only the node's taints, spec.unschedulable and declared features.
	OnlyTraits() bool
}

// newPlan compiles the rules of a profile for a pod. The gauges are added to the class, and the rules beyond one
// node to fresh, which is nil if the class shares those of another.
func newPlan(e *Engine, c *class, pod *state.Pod, fresh *wide) plan {
	if volumes.Needed(&pod.Template.Spec) {
		return plan{pod: pod, scratch: true, uncompiled: true}
	}
	objects := devices.WithoutClasses(rule.OrNone(e.objects)) // a class has no pods with resources backed by devices
	compiled := placement.Evaluation{Input: placement.Input{Pod: pod, Objects: objects}, Profile: c.key.profile}
	compiled.Late = rule.HasDeviceClaims(&pod.Template.Spec)
	p := plan{pod: pod, err: compiled.Compile(), rejected: compiled.Rejected}
	p.scratch = c.key.profile.TotalWeight() > maxWeights
	if p.err != nil || p.rejected != nil {
		return p
	}
	p.only = compiled.Only
	p.onlyBy = compiled.OnlyBy
	p.filters = compiled.Filters
	for i, f := range p.filters {
		p.addFilter(e, int16(i), f.Filter)
		if fresh != nil {
			fresh.addJudge(e, f.Filter)
		}
	}
	for _, s := range compiled.Scorers {
		if s.Err != nil && p.scorerErr == nil {
			p.scorerErr = fmt.Errorf("placement: plugin %s: %w", s.Plugin, s.Err)
		}
		if s.Err != nil {
			continue
		}
		p.addStage(len(c.gauges), s)
		p.addScorer(e, c, s)
		if fresh != nil {
			fresh.addRanker(e, s)
		}
	}
	p.account(e, c.key.profile)
	return p
}

func (p *plan) addFilter(e *Engine, index int16, filter rule.Filter) {
	switch f := filter.(type) {
	case *spread.Filter, *podaffinity.Filter:
		p.judges = append(p.judges, index)
	case fit.Filter:
		p.uses = append(p.uses, newFitUse(&e.columns.Resources, index, f))
		p.scratch = p.scratch || len(f.Extended) > maxNeeds
	case nodeReader:
		if f.OnlyTraits() {
			p.byTraits = append(p.byTraits, index)
		} else {
			p.byNode = append(p.byNode, index)
		}
	default:
		p.uses = append(p.uses, useFilter{index: index, filter: filter})
	}
}

func (p *plan) addScorer(e *Engine, c *class, s placement.ActiveScorer) {
	switch scorer := s.Scorer.(type) {
	case fit.Scorer:
		p.usage.fit = newUsageRow(&e.columns.Resources, scorer.Demands, true)
		p.usage.fitScorer, p.usage.fitWeight = scorer, s.Weight
	case fit.BalanceScorer:
		p.usage.balance = newUsageRow(&e.columns.Resources, scorer.Demands, false)
		p.usage.balanceScorer, p.usage.balanceWeight = scorer, s.Weight
	case nodes.ImageScorer:
		p.image = &imagePlan{ImageScorer: scorer, weight: s.Weight}
		p.scratch = p.scratch || len(scorer.Images) > maxHeld
	case nodes.TaintScorer:
		p.taints = &scorer
		c.gauges = append(c.gauges, gauge{weight: s.Weight, reversed: true})
	case nodes.AffinityScorer:
		c.gauges = append(c.gauges, gauge{weight: s.Weight, scorer: scorer})
	case *spread.Scorer, *podaffinity.Scorer:
	default:
		p.scratch = true
	}
}

// maxWeights is the largest sum of weights for which totals fit into the columns.
const maxWeights = int64(-infeasible) / 2 / rule.MaxScore

// traitRow evaluates the rules that read traits, on any node that has them.
func (p *plan) traitRow(n *state.NodeInfo) traitRow {
	row := traitRow{known: true, verdict: placement.VerdictPass}
	for _, i := range p.byTraits {
		if p.check(i, p.filters[i].Filter.Check(n)) != rule.Success {
			row.verdict = i
			break
		}
	}
	if p.taints != nil {
		row.taints = int32(p.taints.Score(n))
	}
	return row
}

// narrows reports whether the rules narrowed a node out.
func (p *plan) narrows(n *state.NodeInfo) bool {
	if p.only == nil {
		return false
	}
	_, found := slices.BinarySearch(p.only, n.Node.Name)
	return !found
}

// judgeNode returns the verdict of the rules that read a node's object, including its traits, and which of several
// reasons the rule gives.
func (p *plan) judgeNode(n *state.NodeInfo, byTraits int16) (verdict int16, why uint8) {
	for _, i := range p.byNode {
		if byTraits != placement.VerdictPass && byTraits < i {
			break
		}
		if p.check(i, p.filters[i].Filter.Check(n)) != rule.Success {
			return i, variantOf(p.filters[i].Filter, n)
		}
	}
	return byTraits, 0
}

// variant is a filter that gives one of several reasons, identified by small numbers.
type variant interface{ Variant(n *state.NodeInfo) uint8 }

func variantOf(f rule.Filter, n *state.NodeInfo) uint8 {
	if v, ok := f.(variant); ok {
		return v.Variant(n)
	}
	return 0
}

// maxHeld is the largest number of images of one pod that the engine distinguishes.
const maxHeld = 32

type imagePlan struct {
	nodes.ImageScorer
	weight int64
}
