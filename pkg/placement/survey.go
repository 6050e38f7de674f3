package placement

import "slices"

// survey is scratch for looking at all nodes of a class with rules beyond one node.
type survey struct {
	feasible    []int32
	totals, raw []int64
	table       []int64
}

// raws returns room for n raw scores.
func (s *survey) raws(n int) []int64 {
	s.raw = slices.Grow(s.raw[:0], n)[:n]
	return s.raw
}

func (s *survey) bytes() int64 {
	return int64(4*cap(s.feasible) + 8*(cap(s.totals)+cap(s.raw)+cap(s.table)))
}

// scaler brings a raw score to weighted points.
type scaler interface{ points(raw int64) int64 }

// scale replaces raw scores by points. Raw scores are few for the nodes that have them, and
// scaling one is a division or two, so each that can occur is scaled once. Scores outside
// low..high are scaled by themselves.
func (s *survey) scale(by scaler, low, high int64, raw []int64) {
	if high < low || high-low >= int64(len(raw)) {
		for i, score := range raw {
			raw[i] = by.points(score)
		}
		return
	}
	s.table = slices.Grow(s.table[:0], int(high-low)+1)[:high-low+1]
	for i := range s.table {
		s.table[i] = by.points(low + int64(i))
	}
	for i, score := range raw {
		if at := score - low; at >= 0 && at <= high-low {
			raw[i] = s.table[at]
		} else {
			raw[i] = by.points(score)
		}
	}
}

// verdict is the first rule that says no to a node, the ones beyond it included, and which
// of its reasons.
func (c *class) verdict(slot int) (int16, uint8) {
	v, why := c.verdicts[slot], c.why[slot]
	if !c.wide.active || v < verdictPass {
		return v, why
	}
	for _, j := range c.wide.judges {
		if v != verdictPass && j.index() > v {
			break
		}
		ok, reason := j.passes(&c.wide, slot)
		switch {
		case !ok:
			return j.index(), reason
		case j.index() == v:
			why = unknownThere // the one thing that the judge's rule says about one node
		}
	}
	return v, why
}

// passes tells whether a node is feasible.
func (c *class) passes(slot int) bool {
	return c.verdicts[slot] == verdictPass && c.wide.pass(slot)
}

// pass tells whether the rules beyond one node let it pass.
func (w *wide) pass(slot int) bool {
	if !w.active {
		return true
	}
	for _, j := range w.judges {
		if ok, _ := j.passes(w, slot); !ok {
			return false
		}
	}
	return true
}

// prepare readies the judges for passes and verdict.
func (c *class) prepare(e *Engine) {
	if c.wide.active {
		for _, j := range c.wide.judges {
			j.prepare(&c.wide, e)
		}
	}
}

// search lists the feasible nodes.
func (c *class) search() []int32 {
	feasible := c.wide.survey.feasible[:0]
	for slot := range c.verdicts {
		if c.passes(slot) {
			feasible = append(feasible, int32(slot))
		}
	}
	c.wide.survey.feasible = feasible
	return feasible
}

// rate works out the totals of feasible nodes, in their order.
func (c *class) rate(e *Engine, feasible []int32) []int64 {
	s := &c.wide.survey
	s.totals = slices.Grow(s.totals[:0], len(feasible))[:len(feasible)]
	for i := range c.gauges {
		c.gauges[i].measure(feasible)
	}
	for i, slot := range feasible {
		s.totals[i] = c.score[slot] + c.imageBonus.points(c, int(slot))
		for g := range c.gauges {
			s.totals[i] += c.gauges[g].points(int(slot))
		}
	}
	if c.wide.active {
		for _, r := range c.wide.rankers {
			r.rate(c, e, feasible, s.totals)
		}
	}
	return s.totals
}
