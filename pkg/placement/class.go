package placement

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/state"
)

// classKey is what pods of a class have in common. Kind is compared by identity, and the
// class holds on to it.
type classKey struct {
	profile *Profile
	kind    *state.Kind
	home    bool // among home nodes only
	shape   string
}

// class is all pods that no rule can tell apart, with what is known of every node for
// them. It is brought up to date when it is asked about (see catchUp), by looking at the
// nodes that moved since.
type class struct {
	key  classKey
	plan plan
	// basis is what of the engine the plan was made from.
	basis  basis
	digest string // see objectDigest
	// seen is the journal's time up to which the arrays below are right.
	seen uint64

	// By slot: static is the verdict of the rules that read the Node alone, why which of
	// its reasons applies, verdicts that of all rules on one node; score sums up what
	// needs no comparison with other nodes.
	static, verdicts []int16
	why              []uint8
	score            []int64
	held             []uint32 // which of the pod's images the node has
	traits           []traitRow
	gauges           []gauge
	imageBonus       imageBonus

	ranking ranking
	wide    wide
	// diagnosis is what was last found out about why no node passes, diagnosed when.
	diagnosis Diagnosis
	diagnosed uint64
}

// basis are versions of what a plan depends on besides the pod.
type basis struct{ objects, places, epoch uint64 }

// traitRow is what the class thinks of nodes with the same traits.
type traitRow struct {
	known   bool
	verdict int16
	taints  int32
}

// catchUp looks again at every node that moved since the class was last asked about.
func (c *class) catchUp(e *Engine) {
	c.grow(e)
	c.wide.meet(c, e)
	c.imageBonus.weigh(c, e)
	e.journal.since(c.seen, func(slot int) { c.refresh(e, slot) })
	c.seen = e.journal.now
	if c.ranks() {
		c.ranking.settle(c, e)
	}
}

// ranks tells whether totals are kept; otherwise they are worked out when asked for.
func (c *class) ranks() bool { return !c.wide.active && c.key.profile.percentage == 0 }

// grow makes room for slots and traits that are new.
func (c *class) grow(e *Engine) {
	if lack := e.len() - len(c.static); lack > 0 {
		c.static = growBy(c.static, lack, verdictAbsent)
		c.verdicts = growBy(c.verdicts, lack, verdictAbsent)
		c.why = growBy(c.why, lack, 0)
		c.score = growBy(c.score, lack, 0)
		if c.plan.image != nil {
			c.held = growBy(c.held, lack, 0)
		}
		for i := range c.gauges {
			c.gauges[i].raw = growBy(c.gauges[i].raw, lack, 0)
		}
		c.ranking.grow(lack)
	}
	if lack := len(e.traits.ids) - len(c.traits); lack > 0 {
		c.traits = growBy(c.traits, lack, traitRow{})
	}
}

// growBy appends n times a value. Arrays of classes keep their capacity when a class is
// made into another, so old content has to be written over.
func growBy[T any](list []T, n int, value T) []T {
	from := len(list)
	list = slices.Grow(list, n)[:from+n]
	for i := from; i < len(list); i++ {
		list[i] = value
	}
	return list
}

// refresh looks at one node again.
func (c *class) refresh(e *Engine, slot int) {
	if c.ranks() {
		c.ranking.leave(c, slot)
	}
	restated := e.journal.restated[slot] > c.seen
	if restated {
		c.restate(e, slot)
	}
	c.verdicts[slot] = c.judge(e, slot)
	if c.verdicts[slot] == verdictPass {
		c.score[slot] = c.plan.usage.score(&e.resources, slot)
	}
	if c.wide.active {
		c.wide.count(e, slot, restated)
	}
	if c.ranks() {
		c.ranking.enter(c, slot)
	}
}

// restate asks the rules that read a node's object alone.
func (c *class) restate(e *Engine, slot int) {
	n := e.infos[slot]
	c.static[slot], c.why[slot] = verdictAbsent, 0
	if n == nil {
		return
	}
	row := &c.traits[e.traits.of[slot]]
	if !row.known {
		*row = c.plan.traitRow(n)
	}
	if c.plan.narrows(n) {
		c.static[slot] = verdictNarrowed
	} else {
		c.static[slot], c.why[slot] = c.plan.judgeNode(n, row.verdict)
	}
	for i := range c.gauges {
		c.gauges[i].read(slot, n, row)
	}
	if c.plan.image != nil {
		c.held[slot] = c.plan.image.heldBy(n)
	}
}

// judge is the verdict of all rules about one node: the first that says no.
func (c *class) judge(e *Engine, slot int) int16 {
	v := c.static[slot]
	if v == verdictAbsent {
		return v
	}
	marks := e.marks.of[slot]
	if marks&markUsable == 0 || c.key.home && marks&markHome == 0 {
		return verdictAbsent
	}
	if v == verdictNarrowed {
		return v
	}
	return c.plan.judgeUse(e, slot, v)
}

// passesUnnarrowed is passes for a node that may have been narrowed out.
func (c *class) passesUnnarrowed(e *Engine, slot int) bool {
	if c.verdicts[slot] != verdictNarrowed {
		return c.passes(slot)
	}
	v, _ := c.plan.judgeNode(e.infos[slot], c.traits[e.traits.of[slot]].verdict)
	return c.plan.judgeUse(e, slot, v) == verdictPass && c.wide.pass(slot)
}

// candidate tells whether a slot is among the nodes to choose from, be it feasible or not.
func (c *class) candidate(slot int) bool { return c.verdicts[slot] != verdictAbsent }

// bytes is about what the class takes, for the cache's budget.
func (c *class) bytes() int64 {
	const perSlot = 2*2 + 1 + 8 // static, verdicts, why, score
	n := int64(len(c.static))
	size := n*(perSlot+int64(4*len(c.gauges))) + int64(4*len(c.held)) + c.ranking.bytes() + c.wide.bytes()
	return size + int64(len(c.key.shape)) + classOverhead
}

// classOverhead is about what a class takes besides its arrays: the plan and the pod.
const classOverhead = 8 << 10

// gauge is a score that is scaled by the largest among the feasible nodes.
type gauge struct {
	weight   int64
	reversed bool
	scorer   Scorer // of node affinity; nil for taints, which traits tell
	raw      []int32
	top      int32 // the largest of the feasible nodes, 0 if there are none
	atTop    int   // how many have it
}

func (g *gauge) read(slot int, n *state.NodeInfo, row *traitRow) {
	if g.scorer == nil {
		g.raw[slot] = row.taints
	} else {
		g.raw[slot] = int32(g.scorer.Score(n))
	}
}

// points is the weighted score, as normalizeToMax and normalizeReversed have it.
func (g *gauge) points(slot int) int64 {
	raw, top := int64(g.raw[slot]), int64(g.top)
	switch {
	case !g.reversed && top == 0:
		return g.weight * raw
	case !g.reversed:
		return g.weight * (MaxScore * raw / top)
	case top == 0:
		return g.weight * MaxScore
	default:
		return g.weight * (MaxScore - MaxScore*raw/top)
	}
}

// measure finds the top among feasible nodes.
func (g *gauge) measure(feasible []int32) {
	g.top = 0
	for _, slot := range feasible {
		g.top = max(g.top, g.raw[slot])
	}
}

// imageBonus is the part of the score that images make up. What an image is worth depends
// on how many nodes have it.
type imageBonus struct {
	worth []int64
	// none is what a node without any of the images gets, weighted.
	none int64
	// changed: worth changed, and totals with it.
	changed bool
}

// weigh looks at what the images are worth now.
func (b *imageBonus) weigh(c *class, e *Engine) {
	image := c.plan.image
	if image == nil {
		return
	}
	b.worth = growBy(b.worth, len(image.images)-len(b.worth), -1)
	for i, name := range image.images {
		worth := e.images.worth(name, e.nodes(), e.infos)
		if worth != b.worth[i] {
			b.worth[i], b.changed = worth, true
		}
	}
	b.none = image.weight * image.scale(0)
}

// points is the weighted score of a node.
func (b *imageBonus) points(c *class, slot int) int64 {
	image := c.plan.image
	if image == nil {
		return 0
	}
	held := c.held[slot]
	if held == 0 {
		return b.none
	}
	var sum int64
	for i, worth := range b.worth {
		if held&(1<<i) != 0 {
			sum += worth
		}
	}
	return image.weight * image.scale(sum)
}
