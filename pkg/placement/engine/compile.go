package engine

import (
	"fmt"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/devices"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/internal/podaffinity"
	"github.com/berth-scheduler/berth/pkg/placement/internal/spread"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/placement/volumes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// newPlan compiles the rules of a profile for a pod, and sorts filters and scorers by what they read of a node.
// The scores that are scaled are added to the class, and the rules beyond one node to fresh, which is nil if the
// class shares those of another.
//
// Pods with volumes are not compiled: what their rules require depends on the claims of each pod. Device classes
// are hidden, because a pod with resources that devices back is decided from scratch before its plan is used; the
// rule about claims to devices is left out (Evaluation.Late) and evaluated for each pod.
func newPlan(e *Engine, c *class, pod *state.Pod, fresh *crossNodeState) plan {
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
			fresh.addFilter(&e.columns, f.Filter)
		}
	}
	for _, s := range compiled.Scorers {
		if s.Err != nil && p.scorerErr == nil {
			p.scorerErr = fmt.Errorf("placement: plugin %s: %w", s.Plugin, s.Err)
		}
		if s.Err != nil {
			continue
		}
		p.addStage(len(c.scaled), s)
		p.addScorer(e, c, s)
		if fresh != nil {
			fresh.addScorer(&e.columns, s)
		}
	}
	p.openCounters(e, c.key.profile)
	return p
}

// addFilter sorts a filter by what it reads. A filter of an unknown type is called again whenever anything on the
// node changes, which is always right.
func (p *plan) addFilter(e *Engine, index int16, filter rule.Filter) {
	switch f := filter.(type) {
	case *spread.Filter, *podaffinity.Filter:
		p.crossNode = append(p.crossNode, index)
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

// addScorer sorts a scorer by what it reads. There is no safe default for an unknown type, because it might
// compare nodes: the class is then decided from scratch.
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
		c.scaled = append(c.scaled, scaledScore{weight: s.Weight, reversed: true})
	case nodes.AffinityScorer:
		c.scaled = append(c.scaled, scaledScore{weight: s.Weight, scorer: scorer})
	case *spread.Scorer, *podaffinity.Scorer:
	default:
		p.scratch = true
	}
}

// maxWeights is the largest sum of weights for which totals fit into int32, together with infeasible as a base.
// It is more than 5 million; the default profile has less than 30.
const maxWeights = int64(-infeasible) / 2 / rule.MaxScore

// nodeReader is a filter that reads only a node's object, so that its result stays the same until the object
// changes.
type nodeReader interface {
	// OnlyTraits reports whether it reads only the node's taints, spec.unschedulable and declared features.
	OnlyTraits() bool
}

// addFilter adds a hard rule about other pods; other filters are ignored. Affinity is added even for a pod
// without terms of its own, because pods on nodes may have anti-affinity against it. The state becomes active
// when such a pod exists.
func (w *crossNodeState) addFilter(cols *columns.Columns, filter rule.Filter) {
	switch f := filter.(type) {
	case *spread.Filter:
		w.filters = append(w.filters, newSpreadTallyFilter(cols, w, f))
		w.active = true
	case *podaffinity.Filter:
		w.filters = append(w.filters, newAffinityTallyFilter(cols, w, f))
		w.active = w.active || len(f.Affinity)+len(f.AntiAffinity) > 0
	}
}

// addScorer adds a soft rule about other pods; other scorers are ignored. For affinity, the same holds as for
// addFilter.
func (w *crossNodeState) addScorer(cols *columns.Columns, s placement.ActiveScorer) {
	switch scorer := s.Scorer.(type) {
	case *spread.Scorer:
		w.scorers = append(w.scorers, newSpreadTallyScorer(cols, w, s.Weight, scorer))
		w.active = true
	case *podaffinity.Scorer:
		w.scorers = append(w.scorers, &affinityTallyScorer{Scorer: scorer, weight: s.Weight})
		w.active = w.active || len(scorer.Attracted)+len(scorer.Repelled) > 0
	}
}

// addStage records where the points of a scorer will come from. It is called before addScorer, with the number of
// scaled scores so far.
func (p *plan) addStage(gauges int, s placement.ActiveScorer) {
	at := stage{}
	switch s.Scorer.(type) {
	case fit.Scorer:
		at.source = fromFit
	case fit.BalanceScorer:
		at.source = fromBalance
	case nodes.ImageScorer:
		at.source = fromImage
	case nodes.TaintScorer, nodes.AffinityScorer:
		at.source, at.index = fromScaled, gauges
	case *spread.Scorer, *podaffinity.Scorer:
		at.source = fromTally
		for _, before := range p.stages.list {
			if before.source == fromTally {
				at.index++
			}
		}
	default:
		return // the class is decided from scratch
	}
	p.stages.list, p.stages.names = append(p.stages.list, at), append(p.stages.names, s.Plugin)
}

// openCounters creates the counters of a new plan's rules, each of which has been called for the pod. Their
// addresses are kept, so that counting a call needs no map.
func (p *plan) openCounters(e *Engine, profile *placement.Profile) {
	p.counters = ruleCounters{profiler: &e.profiler}
	open := func(plugin, before, point string) *uint64 {
		*e.profiler.counter(RuleCalls{profile.SchedulerName(), plugin, before})++
		e.profiler.endRule(before, plugin, rule.Success)
		return e.profiler.counter(RuleCalls{profile.SchedulerName(), plugin, point})
	}
	for _, f := range p.filters {
		p.counters.filters = append(p.counters.filters, open(f.Plugin, PointPreFilter, PointFilter))
	}
	for _, plugin := range p.stages.names {
		p.counters.score = append(p.counters.score, open(plugin, PointPreScore, PointScore))
	}
}
