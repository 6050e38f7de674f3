package placement

import (
	"math"
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
	count
	// basis is what of the engine the plan was made from.
	basis basis
	// seen is the journal's time up to which everything below is right.
	seen uint64
	// cells are by slot, and so are base and group: the part of the total that needs no
	// comparison with other nodes, and the group of nodes that are alike in the rest of it.
	cells       []cell
	base, group []int32
	groups      groups
	traits      []traitRow
	gauges      []gauge
	bonus       imageBonus
	wide        *wide // shared with other classes
	// outlooks are about preemption, the one asked for last first.
	outlooks []*outlook
}

// count is what there is to tell of a class beside what it keeps of nodes.
type count struct {
	// best are the slots of the nodes that the last decision ranked, all different.
	best []int32
	told told
	// id is Result.Class.
	id uint64
	// refused counts the nodes per filter that says no first among those that look at one
	// node; narrowed the nodes that rules narrowed out.
	refused  []int32
	narrowed int32
}

// told is what was last found out about why no node passes, and when.
type told struct {
	diagnosis Diagnosis
	at        uint64
}

// cell is what a class keeps of one node.
type cell struct {
	score int32 // weighted, of the rules that read how full the node is
	held  uint32
	// raw are the node's values of the gauges.
	raw [maxGauges]int32
	// static is the verdict of the rules that read the Node alone, why which of its reasons
	// applies; verdict is that of all rules on one node.
	static, verdict int16
	why             uint8
}

// infeasible is the base of a node that does not pass.
const infeasible int32 = math.MinInt32 / 2

// basis are versions of what a plan depends on besides the pod.
type basis struct{ places, epoch uint64 }

// traitRow is what the class thinks of nodes with the same traits.
type traitRow struct {
	known   bool
	verdict int16
	taints  int32
}

// catchUp looks again at every node that moved since the class was last asked about.
func (c *class) catchUp(e *Engine) {
	c.wide.catchUp(e)
	c.grow(e)
	if c.bonus.weigh(c, e) {
		c.rebase()
	}
	if sweep := c.seen == 0 || e.journal.isFar(c.seen); sweep {
		for slot, at := range e.journal.moved {
			if at > c.seen {
				c.refresh(e, slot, true)
			}
		}
	} else {
		c.follow(e)
	}
	c.seen = e.journal.now
	if c.groups.stale(len(c.wide.columns), len(c.cells)) {
		c.regroup()
	}
}

// follow goes through the moves one by one. A node is looked at when its last move comes.
// Its group is another one only if its object changed, or pods came or went that count for
// the rules beyond one node.
func (c *class) follow(e *Engine) {
	for at := c.seen + 1; at <= e.journal.now; at++ {
		m := &e.journal.last[at%journalSize]
		slot := int(m.slot)
		if c.group[slot] != noGroup && c.wide.counts(e, m.kind) {
			c.regroupSlot(slot)
		}
		if e.journal.moved[slot] == at {
			c.refresh(e, slot, e.journal.restated[slot] > c.seen)
		}
	}
}

// grow makes room for slots and traits that are new.
func (c *class) grow(e *Engine) {
	if lack := e.len() - len(c.cells); lack > 0 {
		c.cells = growBy(c.cells, lack, cell{static: verdictAbsent, verdict: verdictAbsent})
		c.base = growBy(c.base, lack, infeasible)
		c.group = growBy(c.group, lack, noGroup)
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

// refresh looks at one node again. restated: at its object too; otherwise a node that is
// in a group stays in it for as long as it passes.
func (c *class) refresh(e *Engine, slot int, restated bool) {
	if restated {
		c.restate(e, slot)
	}
	cell := &c.cells[slot]
	c.tally(cell.verdict, -1)
	cell.verdict = c.judge(e, slot, cell.static)
	c.tally(cell.verdict, 1)
	if cell.verdict != verdictPass {
		c.base[slot] = infeasible
		c.groups.leave(&c.group[slot])
		return
	}
	cell.score = int32(c.plan.usage.score(&e.resources, slot))
	c.plan.scoredBy(fromFit, 0, 1)
	c.plan.scoredBy(fromBalance, 0, 1)
	c.plan.scoredBy(fromImage, 0, 1)
	c.base[slot] = cell.score + c.bonus.points(c.plan.image, cell.held)
	if restated || c.group[slot] == noGroup {
		c.regroupSlot(slot)
	}
}

// tally keeps count of verdicts.
func (c *class) tally(verdict int16, by int32) {
	switch {
	case verdict >= 0:
		c.refused[verdict] += by
	case verdict == verdictNarrowed:
		c.narrowed += by
	}
}

// restate asks the rules that read a node's object alone.
func (c *class) restate(e *Engine, slot int) {
	n, cell := e.infos[slot], &c.cells[slot]
	cell.static, cell.why = verdictAbsent, 0
	if n == nil {
		return
	}
	row := &c.traits[e.traits.of[slot]]
	if !row.known {
		*row = c.plan.traitRow(n)
	}
	if c.plan.narrows(n) {
		cell.static = verdictNarrowed
	} else {
		cell.static, cell.why = c.plan.judgeNode(n, row.verdict)
	}
	for i := range c.gauges {
		cell.raw[i] = c.gauges[i].read(n, row)
	}
	cell.held = c.bonus.heldBy(slot)
}

// judge is the verdict of all rules about one node, given that of those that read its
// object alone: the first that says no.
func (c *class) judge(e *Engine, slot int, static int16) int16 {
	if static == verdictAbsent || !c.candidate(e, slot) {
		return verdictAbsent
	}
	if static == verdictNarrowed {
		return static
	}
	return c.plan.judgeUse(e, slot, static)
}

// candidate tells whether a node is among those to choose from.
func (c *class) candidate(e *Engine, slot int) bool {
	marks := e.marks.of[slot]
	return marks&markUsable != 0 && (!c.key.home || marks&markHome != 0)
}

// rebase works out all bases anew.
func (c *class) rebase() {
	for slot := range c.cells {
		if cell := &c.cells[slot]; cell.verdict == verdictPass {
			c.base[slot] = cell.score + c.bonus.points(c.plan.image, cell.held)
		}
	}
}

// bytes is about what the class takes, for the cache's budget.
func (c *class) bytes() int64 {
	const perSlot = 24 + 4 + 4 // cell, base, group
	size := int64(0)
	for _, o := range c.outlooks {
		size += o.bytes()
	}
	return size + int64(len(c.cells))*perSlot + c.groups.bytes() + int64(len(c.key.shape)) + classOverhead
}

// classOverhead is about what a class takes besides its arrays: the plan and the pod.
const classOverhead = 8 << 10

// maxGauges is how many rules scale their scores by the largest among the feasible nodes:
// taints, and node affinity.
const maxGauges = 2

// gauge is one of these rules.
type gauge struct {
	weight   int64
	reversed bool
	scorer   Scorer // of node affinity; nil for taints, which traits tell
}

func (g *gauge) read(n *state.NodeInfo, row *traitRow) int32 {
	if g.scorer == nil {
		return row.taints
	}
	return int32(g.scorer.Score(n))
}

// points is the weighted score, as normalizeToMax and normalizeReversed have it.
func (g *gauge) points(raw, top int64) int64 {
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

// imageBonus is the part of the score that images make up. What an image is worth depends
// on how many nodes have it.
type imageBonus struct {
	// images are those of the pod, nil for one that no node has; worth is what they add.
	images []*image
	worth  []int64
	// none is what a node without any of the images gets, weighted.
	none int32
}

// weigh looks at what the images are worth now, and returns whether that changed.
func (b *imageBonus) weigh(c *class, e *Engine) (changed bool) {
	plan := c.plan.image
	if plan == nil {
		return false
	}
	if lack := len(plan.images) - len(b.worth); lack > 0 {
		b.worth, b.images = growBy(b.worth, lack, -1), growBy(b.images, lack, nil)
	}
	for i, name := range plan.images {
		var worth int64
		if b.images[i] = e.images.watch(name); b.images[i] != nil {
			worth = b.images[i].worth(name, e.nodes(), e.infos)
		}
		if worth != b.worth[i] {
			b.worth[i], changed = worth, true
		}
	}
	b.none = int32(plan.weight * plan.scale(0))
	return changed
}

// heldBy is which of the images a node has, a bit each.
func (b *imageBonus) heldBy(slot int) uint32 {
	var held uint32
	for i, image := range b.images {
		if image != nil && image.isOn(slot) {
			held |= 1 << i
		}
	}
	return held
}

// points is the weighted score of a node that holds these of the images.
func (b *imageBonus) points(plan *imagePlan, held uint32) int32 {
	if plan == nil {
		return 0
	}
	if held == 0 {
		return b.none
	}
	var sum int64
	for i, worth := range b.worth {
		if held&(1<<i) != 0 {
			sum += worth
		}
	}
	return int32(plan.weight * plan.scale(sum))
}
