package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
)

// Pods that name device claims belong to the class of pods that are equal without them, because no two of them
// request the same claims. The rule about devices is evaluated last, for the remaining nodes.

// evaluateClaims is Evaluate for such a pod. Anything but the usual case is decided from scratch, including the
// case that no node is left, because the answer must then explain why.
func (e *Engine) evaluateClaims(c *class, q Query, total int) placement.Result {
	late, ok := e.lateFilter(c, q)
	if ok {
		e.watch.point(PointPreFilter, rule.Success)
		c.catchUp(e)
		c.wide.prepare(e)
		e.cache.settle(c, e.columns.Nodes())
		e.late = late
		result := e.decide(c, q, placement.Result{NodesTotal: total, Class: c.id})
		e.late = nil
		if result.Err == nil && result.FeasibleCount > 0 {
			return result
		}
	}
	result := c.key.profile.Evaluate(e.input(q))
	result.Class = c.id
	return result
}

// lateFilter returns the filter of the rule about devices for a pod, or nil if the rule does not apply. ok is false
// if the rule would do more than reject some nodes.
func (e *Engine) lateFilter(c *class, q Query) (late rule.Filter, ok bool) {
	nominated := q.Pod.Status().NominatedNodeName != ""
	if c.plan.err != nil || c.plan.rejected != nil || c.plan.scratch || len(q.Opinions) > 0 || nominated {
		return nil, false
	}
	compiled, err := c.key.profile.CompilePlugin(names.DynamicResources, q.Pod, rule.OrNone(e.objects))
	if err != nil || compiled.Rejection != "" || compiled.OnlyNodes != nil ||
		compiled.Scorer != nil || compiled.ScorerErr != nil {
		return nil, false
	}
	return compiled.Filter, true
}

// passesLate evaluates the late filter for a node that passes all others.
func (e *Engine) passesLate(slot int32) bool {
	return e.late == nil || e.late.Check(e.columns.Infos[slot]) == rule.Success
}
