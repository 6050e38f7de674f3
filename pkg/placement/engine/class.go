package engine

import (
	"math"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// classKey holds what the pods of a class have in common. Kind (namespace, labels, terms) is compared by
// identity, because the store keeps one Kind for all pods that share it, and the class keeps a reference to it.
// shape is the signature of everything else that rules read (see signature.Signature).
type classKey struct {
	profile *placement.Profile
	kind    *state.PodClass
	// home restricts the class to home nodes. It is part of the key because the verdicts of other nodes then are
	// VerdictAbsent, and their counts differ.
	home  bool // home nodes only
	shape string
}

// class represents all pods that no rule can distinguish, together with the results for every node. It is brought
// up to date when it is used (see catchUp), by evaluating again the nodes that changed since. A class that is not
// used costs memory and nothing else.
//
// The total of a node is base[slot] plus the points of its group. base has the scores that depend on this node
// alone: NodeResourcesFit, balance and images. Points have those that compare nodes: taints and node affinity,
// whose scale is the largest raw score among the feasible nodes, and the rules about other pods.
type class struct {
	key classKey
	// plan is the profile compiled for the pods of the class. It does not change during the life of the class.
	plan plan
	count
	// basis is the version of the engine's data that the plan was made from.
	basis basis
	// seen is the journal time up to which everything below is valid.
	seen uint64
	// cells, base and group are indexed by slot. base is the part of the total score that needs no comparison with
	// other nodes; group is the group of nodes that are alike in the rest of it.
	cells       []cell
	base, group []int32
	groups      groups
	// traits holds results per combination of taints, cordon and declared features (columns.traitColumn): in most
	// clusters there are a few of them, so that these rules are evaluated a few times and not once per node.
	traits []traitRow
	// scaled holds the scores whose scale depends on the feasible nodes, and bonus the score of images.
	scaled []scaledScore
	bonus  imageBonus
	// crossNode is shared with other classes. It is never nil; it is inactive if no rule of the class looks at
	// other pods.
	crossNode *crossNodeState
	// preemption holds what is known about preemption, the most recently used entry first.
	preemption []*preemptionCache
}

// count holds what a class knows in addition to its data per node.
type count struct {
	// best holds the slots of the nodes that the last decision ranked, all different. Their totals are a first
	// bar for the next decision (see shortlist.scan).
	best []int32
	// last is the last diagnosis. A pod that fits nowhere is often tried again, and so are the pods like it.
	last lastDiagnosis
	// id is Result.Class, a hash that is the same in all processes.
	id uint64
	// refused counts nodes per filter: the first filter among those on a single node that rejects the node.
	// narrowed counts the nodes that rules narrowed out.
	refused  []int32
	narrowed int32
}

// lastDiagnosis is the last diagnosis of why no node passes, and the journal time of it. It is valid while that
// is the current time and the number of candidates is the same.
type lastDiagnosis struct {
	diagnosis placement.Diagnosis
	at        uint64
}

// cell is a class's cached state about one node. It is kept small (24 bytes): a class has one for every slot, and
// a cluster of 10,000 nodes with 500 classes has five million of them.
type cell struct {
	// score is weighted, of the rules that depend on the node's usage.
	score int32
	// held has a bit for every image of the pod that the node has.
	held uint32
	// raw holds the node's raw scores that are scaled; see class.scaled.
	raw [maxScaledScores]int32
	// static is the verdict of the rules that read only the Node object, and why is the applicable one of the
	// rule's reasons. verdict is that of all rules about a single node. Both are indexes into plan.filters, or
	// one of the negative constants of package placement. static is kept separately so that a change of the pods
	// on a node does not evaluate the rules about its object again.
	static, verdict int16
	why             uint8
}

// infeasible is the base of a node that does not pass. It is far enough from the smallest int32 that adding the
// points of a group cannot overflow (see maxWeights), and far enough below 0 that the sum stays below every bar.
const infeasible int32 = math.MinInt32 / 2

// basis holds the versions of what a plan depends on in addition to the pod: places is the version of the
// resource columns, whose positions the plan has resolved, and epoch is Engine.epoch.
type basis struct{ places, epoch uint64 }

// catchUp evaluates again every node that changed since the class was last used. The order matters: the tallies
// come first, because the groups of nodes are formed by their values; then the arrays grow for new slots; then
// what images are worth, which changes all bases at once; then the nodes. Groups are formed last if there are
// more columns than they were formed by.
func (c *class) catchUp(cols *columns.Columns) {
	c.crossNode.catchUp(cols)
	c.grow(cols)
	if c.bonus.weigh(c, cols) {
		c.rebase()
	}
	// A class that is new, or far behind, looks at every slot: cheaper than a journal that has several changes
	// per node, and the journal may already have overwritten the oldest of them.
	if sweep := c.seen == 0 || cols.Journal.IsTooFar(c.seen); sweep {
		for slot, at := range cols.Journal.ChangedAt {
			if at > c.seen {
				c.refresh(cols, slot, true)
			}
		}
	} else {
		c.followJournal(cols)
	}
	c.seen = cols.Journal.Now
	if c.groups.stale(len(c.crossNode.columns), len(c.cells)) {
		c.regroup()
	}
}

// followJournal processes the changes one by one. A node with several changes is evaluated once, at its last. Its
// group changes only if its object changed, or if pods that the rules beyond one node count were added or
// removed: only these are part of the group's values.
func (c *class) followJournal(cols *columns.Columns) {
	for at := c.seen + 1; at <= cols.Journal.Now; at++ {
		m := &cols.Journal.Recent[at%columns.JournalSize]
		slot := int(m.Slot)
		if c.group[slot] != noGroup && c.crossNode.counts(cols, m.Kind) {
			c.regroupSlot(slot)
		}
		if cols.Journal.ChangedAt[slot] == at {
			c.refresh(cols, slot, cols.Journal.ObjectChangedAt[slot] > c.seen)
		}
	}
}

// grow extends the arrays for new slots and traits. A new slot has the verdict VerdictAbsent until it is
// evaluated, so that the counts of verdicts stay right.
func (c *class) grow(cols *columns.Columns) {
	if lack := cols.Len() - len(c.cells); lack > 0 {
		c.cells = columns.GrowBy(c.cells, lack, cell{static: placement.VerdictAbsent, verdict: placement.VerdictAbsent})
		c.base = columns.GrowBy(c.base, lack, infeasible)
		c.group = columns.GrowBy(c.group, lack, noGroup)
	}
	if lack := len(cols.Traits.IDs) - len(c.traits); lack > 0 {
		c.traits = columns.GrowBy(c.traits, lack, traitRow{})
	}
}

// refresh evaluates one node again. objectChanged includes its object; without it, only the rules about usage are
// evaluated, and a node that is in a group stays in it for as long as it passes.
func (c *class) refresh(cols *columns.Columns, slot int, objectChanged bool) {
	if objectChanged {
		c.evaluateObject(cols, slot)
	}
	cell := &c.cells[slot]
	c.tally(cell.verdict, -1)
	cell.verdict = c.verdictOf(cols, slot, cell.static)
	c.tally(cell.verdict, 1)
	if cell.verdict != placement.VerdictPass {
		c.base[slot] = infeasible
		c.groups.leave(&c.group[slot])
		return
	}
	cell.score = int32(c.plan.usage.score(&cols.Resources, slot, 0))
	c.plan.recordScores(fromFit, 0, 1)
	c.plan.recordScores(fromBalance, 0, 1)
	c.plan.recordScores(fromImage, 0, 1)
	c.base[slot] = cell.score + c.bonus.points(c.plan.image, cell.held)
	if objectChanged || c.group[slot] == noGroup {
		c.regroupSlot(slot)
	}
}

// tally counts verdicts, by the first filter that rejects a node; by is 1 or -1.
func (c *class) tally(verdict int16, by int32) {
	switch {
	case verdict >= 0:
		c.refused[verdict] += by
	case verdict == placement.VerdictNarrowed:
		c.narrowed += by
	}
}

// evaluateObject evaluates the rules that read only a node's object, and reads what later steps need of the
// object: raw scores and images. The result stays in the cell until the object changes.
func (c *class) evaluateObject(cols *columns.Columns, slot int) {
	n, cell := cols.Infos[slot], &c.cells[slot]
	cell.static, cell.why = placement.VerdictAbsent, 0
	if n == nil {
		return
	}
	row := &c.traits[cols.Traits.Of[slot]]
	if !row.known {
		*row = c.plan.traitRow(n)
	}
	if c.plan.narrows(n) {
		cell.static = placement.VerdictNarrowed
	} else {
		cell.static, cell.why = c.plan.nodeVerdict(n, row.verdict)
	}
	for i := range c.scaled {
		cell.raw[i] = c.scaled[i].read(n, row)
	}
	cell.held = c.bonus.heldBy(slot)
}

// verdictOf returns the verdict of all rules about one node: that of the first rule that rejects it, in the order
// of the profile, as upstream stops at the first. static is the verdict of the rules that read only its object.
func (c *class) verdictOf(cols *columns.Columns, slot int, static int16) int16 {
	if static == placement.VerdictAbsent || !c.candidate(cols, slot) {
		return placement.VerdictAbsent
	}
	if static == placement.VerdictNarrowed {
		return static
	}
	return c.plan.usageVerdict(cols, slot, static)
}

// candidate reports whether a node is among those to choose from.
func (c *class) candidate(cols *columns.Columns, slot int) bool {
	marks := cols.Marks.Of[slot]
	return marks&columns.MarkUsable != 0 && (!c.key.home || marks&columns.MarkHome != 0)
}

// rebase recomputes all bases, after a change of what images are worth. The rest of each base is in the cell.
func (c *class) rebase() {
	for slot := range c.cells {
		if cell := &c.cells[slot]; cell.verdict == placement.VerdictPass {
			c.base[slot] = cell.score + c.bonus.points(c.plan.image, cell.held)
		}
	}
}

// bytes estimates the memory of the class, for the cache's budget. The tallies are counted separately because
// classes share them.
func (c *class) bytes() int64 {
	const perSlot = 24 + 4 + 4 // cell, base, group
	size := int64(0)
	for _, o := range c.preemption {
		size += o.bytes()
	}
	return size + int64(len(c.cells))*perSlot + c.groups.bytes() + int64(len(c.key.shape)) + classOverhead
}

// classOverhead estimates what a class takes in addition to its arrays: the plan and the pod.
const classOverhead = 8 << 10

// scaledScore is a score that is scaled by the largest raw score among the feasible nodes: that of
// TaintToleration, or that of NodeAffinity.
type scaledScore struct {
	weight int64
	// reversed means that fewer points are better: untolerated PreferNoSchedule taints.
	reversed bool
	scorer   rule.Scorer // of node affinity; nil for taints, which are part of the traits
}

// read returns the raw score of a node. That of taints is part of the results per combination of traits.
func (g *scaledScore) read(n *state.NodeInfo, row *traitRow) int32 {
	if g.scorer == nil {
		return row.taints
	}
	return int32(g.scorer.Score(n))
}

// points returns the weighted score of a raw score, given the largest one, computed as rule.NormalizeToMax and
// rule.NormalizeReversed do.
func (g *scaledScore) points(raw, top int64) int64 {
	switch {
	case !g.reversed && top == 0:
		return g.weight * raw
	case !g.reversed:
		return g.weight * (rule.MaxScore * raw / top)
	case top == 0:
		return g.weight * rule.MaxScore
	default:
		return g.weight * (rule.MaxScore - rule.MaxScore*raw/top)
	}
}

// imageBonus is the part of the score that comes from images. The score of an image depends on how many nodes
// have it (nodes.ImageWorth), so that it can change for all nodes when one node pulls an image. Such changes are
// rare, and they change the worth of an image, not which nodes have it: cells keep the latter as bits.
type imageBonus struct {
	// images holds the pod's images, nil for one that no node has; worth holds what each adds to the score.
	images []*columns.Image
	worth  []int64
	// none is the weighted score of a node without any of the images.
	none int32
}

// weigh updates what the images are worth and reports whether that changed. It costs a look-up per image of the
// pod, not per node, unless nodes report different sizes of an image.
func (b *imageBonus) weigh(c *class, cols *columns.Columns) (changed bool) {
	plan := c.plan.image
	if plan == nil {
		return false
	}
	if lack := len(plan.Images) - len(b.worth); lack > 0 {
		b.worth, b.images = columns.GrowBy(b.worth, lack, -1), columns.GrowBy(b.images, lack, nil)
	}
	for i, name := range plan.Images {
		var worth int64
		if b.images[i] = cols.Images.Watch(name); b.images[i] != nil {
			worth = b.images[i].Worth(name, cols.Nodes(), cols.Infos)
		}
		if worth != b.worth[i] {
			b.worth[i], changed = worth, true
		}
	}
	b.none = int32(plan.weight * plan.Scale(0))
	return changed
}

// heldBy returns which of the images a node has, one bit each.
func (b *imageBonus) heldBy(slot int) uint32 {
	var held uint32
	for i, image := range b.images {
		if image != nil && image.IsOn(slot) {
			held |= 1 << i
		}
	}
	return held
}

// points returns the weighted score of a node that has the given images.
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
	return int32(plan.weight * plan.Scale(sum))
}

// regroupSlot adds a node that passes to its group.
func (c *class) regroupSlot(slot int) {
	if c.groups.width != len(c.crossNode.columns)+maxScaledScores {
		return // all nodes will be regrouped
	}
	c.values(slot)
	c.groups.enter(&c.group[slot])
}

// values computes the tuple that determines a node's group: its raw scores that are scaled, then its values in
// the columns of the rules beyond one node. The tuple is scratch of the groups.
func (c *class) values(slot int) {
	tuple := c.groups.tuple[:0]
	for _, raw := range c.cells[slot].raw {
		tuple = append(tuple, int64(raw))
	}
	for i := range c.crossNode.columns {
		tuple = append(tuple, c.crossNode.columns[i].Value(slot))
	}
	c.groups.tuple = tuple
}

// regroup rebuilds the groups of all nodes.
func (c *class) regroup() {
	c.groups.reset(len(c.crossNode.columns) + maxScaledScores)
	for slot := range c.cells {
		c.group[slot] = noGroup
		if c.cells[slot].verdict == placement.VerdictPass {
			c.regroupSlot(slot)
		}
	}
}
