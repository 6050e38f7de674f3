package placement

import (
	"fmt"
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// plan holds the rules of a profile compiled for the pods of a class, sorted by which parts of a node they read. It
// is immutable.
type plan struct {
	pod *state.Pod
	// err is the result of every attempt; scorerErr is the result of attempts that must compare nodes.
	err, scorerErr error
	rejected       *rejection
	only, onlyBy   []string
	filters        []activeFilter
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
	taints *taintScorer
	stages stages
}

// nodeReader is a filter that reads only a node's object, so that its result stays the same until the object
// changes.
type nodeReader interface {
	// onlyTraits reports whether it reads only the node's taints, spec.unschedulable and declared features.
	onlyTraits() bool
}

// newPlan compiles the rules of a profile for a pod. The gauges are added to the class, and the rules beyond one
// node to fresh, which is nil if the class shares those of another.
func newPlan(e *Engine, c *class, pod *state.Pod, fresh *wide) plan {
	if needsVolumes(&pod.Template.Spec) {
		return plan{pod: pod, scratch: true, uncompiled: true}
	}
	objects := withoutDeviceClasses(orNoObjects(e.objects)) // a class has no pods with resources backed by devices
	compiled := evaluation{Input: Input{Pod: pod, Objects: objects}, profile: c.key.profile}
	compiled.late = hasDeviceClaims(&pod.Template.Spec)
	p := plan{pod: pod, err: compiled.compile(), rejected: compiled.rejected}
	p.scratch = c.key.profile.totalWeight() > maxWeights
	if p.err != nil || p.rejected != nil {
		return p
	}
	p.only = compiled.only
	p.onlyBy = compiled.onlyBy
	p.filters = compiled.filters
	for i, f := range p.filters {
		p.addFilter(e, int16(i), f.filter)
		if fresh != nil {
			fresh.addJudge(e, f.filter)
		}
	}
	for _, s := range compiled.scorers {
		if s.err != nil && p.scorerErr == nil {
			p.scorerErr = fmt.Errorf("placement: plugin %s: %w", s.plugin, s.err)
		}
		if s.err != nil {
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

func (p *plan) addFilter(e *Engine, index int16, filter Filter) {
	switch f := filter.(type) {
	case *spreadFilter, *podAffinityFilter:
		p.judges = append(p.judges, index)
	case fitFilter:
		p.uses = append(p.uses, newFitUse(&e.columns.resources, index, f))
		p.scratch = p.scratch || len(f.extended) > maxNeeds
	case nodeReader:
		if f.onlyTraits() {
			p.byTraits = append(p.byTraits, index)
		} else {
			p.byNode = append(p.byNode, index)
		}
	default:
		p.uses = append(p.uses, useFilter{index: index, filter: filter})
	}
}

func (p *plan) addScorer(e *Engine, c *class, s activeScorer) {
	switch scorer := s.scorer.(type) {
	case fitScorer:
		p.usage.fit = newUsageRow(&e.columns.resources, scorer.demands, true)
		p.usage.fitScorer, p.usage.fitWeight = scorer, s.weight
	case balanceScorer:
		p.usage.balance = newUsageRow(&e.columns.resources, scorer.demands, false)
		p.usage.balanceScorer, p.usage.balanceWeight = scorer, s.weight
	case imageScorer:
		p.image = &imagePlan{imageScorer: scorer, weight: s.weight}
		p.scratch = p.scratch || len(scorer.images) > maxHeld
	case taintScorer:
		p.taints = &scorer
		c.gauges = append(c.gauges, gauge{weight: s.weight, reversed: true})
	case affinityScorer:
		c.gauges = append(c.gauges, gauge{weight: s.weight, scorer: scorer})
	case *spreadScorer, *podAffinityScorer:
	default:
		p.scratch = true
	}
}

// maxWeights is the largest sum of weights for which totals fit into the columns.
const maxWeights = int64(-infeasible) / 2 / MaxScore

// traitRow evaluates the rules that read traits, on any node that has them.
func (p *plan) traitRow(n *state.NodeInfo) traitRow {
	row := traitRow{known: true, verdict: verdictPass}
	for _, i := range p.byTraits {
		if p.check(i, p.filters[i].filter.Check(n)) != Success {
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
		if byTraits != verdictPass && byTraits < i {
			break
		}
		if p.check(i, p.filters[i].filter.Check(n)) != Success {
			return i, variantOf(p.filters[i].filter, n)
		}
	}
	return byTraits, 0
}

// variant is a filter that gives one of several reasons, identified by small numbers.
type variant interface{ variant(n *state.NodeInfo) uint8 }

func variantOf(f Filter, n *state.NodeInfo) uint8 {
	if v, ok := f.(variant); ok {
		return v.variant(n)
	}
	return 0
}

// maxHeld is the largest number of images of one pod that the engine distinguishes.
const maxHeld = 32

type imagePlan struct {
	imageScorer
	weight int64
}
