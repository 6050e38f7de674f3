package placement

// Pods that name claims to devices have the class of pods that are the same without them, because no two
// of them ask for the same: what the rule about devices says is asked last, of the nodes that are left.

// evaluateClaims is Evaluate for such a pod. Whatever is not the usual case is decided from scratch: that
// no node is left too, because then it has to be said why.
func (e *Engine) evaluateClaims(c *class, q Query, total int) Result {
	late, ok := e.lateFilter(c, q)
	if ok {
		e.watch.point(PointPreFilter, Success)
		c.catchUp(e)
		c.wide.prepare(e)
		e.cache.settle(c, e.nodes())
		e.late = late
		result := e.decide(c, q, Result{NodesTotal: total, Class: c.id})
		e.late = nil
		if result.Err == nil && result.FeasibleCount > 0 {
			return result
		}
	}
	result := c.key.profile.Evaluate(e.input(q))
	result.Class = c.id
	return result
}

// lateFilter is the rule about devices for a pod, nil if it has nothing to say; !ok if it has more to say
// than that some nodes do not pass.
func (e *Engine) lateFilter(c *class, q Query) (late Filter, ok bool) {
	nominated := q.Pod.Status().NominatedNodeName != ""
	if c.plan.err != nil || c.plan.rejected != nil || c.plan.scratch || len(q.Opinions) > 0 || nominated {
		return nil, false
	}
	r, ok := c.key.profile.byName[DynamicResources]
	if !ok {
		return nil, true
	}
	compiled, err := r.plugin.Compile(q.Pod, orNoObjects(e.objects))
	if err != nil && r.points.has(Narrowing) {
		return nil, false
	}
	compiled = r.enabled(compiled)
	if compiled.Rejection != "" || compiled.OnlyNodes != nil || compiled.Scorer != nil || compiled.ScorerErr != nil {
		return nil, false
	}
	return compiled.Filter, true
}

// passesLate asks the last rule about a node that all others let pass.
func (e *Engine) passesLate(slot int32) bool {
	return e.late == nil || e.late.Check(e.infos[slot]) == Success
}
