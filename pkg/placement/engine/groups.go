package engine

import (
	"encoding/binary"
	"slices"
)

// groups sorts the nodes that pass the rules about a single node by everything else that their total, or a rule
// beyond one node, depends on: the raw scores that are scaled, and for each tally the domain or the sum. The
// nodes of a group are either all feasible or none is, and they get the same points, so a decision computes both
// once per group. Usually there are few groups.
//
// For a class with soft taints in two variants and one spread constraint over three zones, a row is (untolerated
// taints, node affinity, zone), and there are at most six groups. A constraint over hostnames gives every node a
// value of its own, its number of matching pods: the groups then are as many as there are different numbers, not
// nodes.
type groups struct {
	// values holds rows of width values, one row per group; see class.values.
	values []int64
	width  int
	// members counts the nodes of each group.
	members []int32
	// ids finds the group of a tuple, encoded as bytes because slices are not comparable.
	ids map[string]int32
	// tuple and key are scratch.
	tuple []int64
	key   []byte
	// live is the number of groups with members.
	live int
}

// noGroup is the group of a node that does not pass.
const noGroup int32 = -1

// row returns the values of a group.
func (g *groups) row(group int) []int64 { return g.values[group*g.width : (group+1)*g.width] }

// leave removes a node from its group. The group stays, without members, until the groups are rebuilt.
func (g *groups) leave(of *int32) {
	if *of == noGroup {
		return
	}
	if g.members[*of]--; g.members[*of] == 0 {
		g.live--
	}
	*of = noGroup
}

// enter moves a node to the group of the tuple, which is created if necessary. It allocates only for a new group.
func (g *groups) enter(of *int32) {
	if *of != noGroup && slices.Equal(g.row(int(*of)), g.tuple) {
		return
	}
	g.leave(of)
	g.key = g.key[:0]
	for _, v := range g.tuple {
		g.key = binary.LittleEndian.AppendUint64(g.key, uint64(v))
	}
	id, ok := g.ids[string(g.key)]
	if !ok {
		id = int32(len(g.members))
		g.ids[string(g.key)] = id
		g.values = append(g.values, g.tuple...)
		g.members = append(g.members, 0)
	}
	if g.members[id]++; g.members[id] == 1 {
		g.live++
	}
	*of = id
}

// groupList lists the feasible groups of one evaluation, with their number of nodes and their points. All slices have
// one entry per group.
type groupList struct {
	ids, nodes []int32
	// sums holds the points so far; raw is scratch of one ranker.
	sums, raw []int64
}

// crossNodeValues returns the values of an entry that the rules beyond one node read.
func (l *groupList) crossNodeValues(g *groups, entry int) []int64 {
	return g.row(int(l.ids[entry]))[maxScaledScores:]
}

// reset removes all groups.
func (g *groups) reset(width int) {
	if g.ids == nil {
		g.ids = map[string]int32{}
	}
	clear(g.ids)
	g.values = g.values[:0]
	g.members = g.members[:0]
	g.width = width
	g.live = 0
}

// stale reports whether the groups have to be rebuilt: there are more columns than they have values for (the
// first pod whose terms use another topology key adds one), or most of them are empty (a column of sums adds a
// group per sum).
func (g *groups) stale(columns, slots int) bool {
	mostlyEmpty := len(g.members) > slots+minForRebuild && len(g.members) > compactionRatio*g.live
	return g.width != columns+maxScaledScores || mostlyEmpty
}

// minForRebuild is the number of groups, beyond one per slot, below which removing empty ones is not worth it.
const minForRebuild = 256

// bytes estimates the memory of the groups, in bytes.
func (g *groups) bytes() int64 {
	const perKey = 48 // approximate size of the map entry
	return int64(8*cap(g.values)+4*cap(g.members)) + int64(len(g.members)*(perKey+8*g.width))
}

// maxScaledScores is the number of rules that scale their scores by the largest among the feasible nodes: taints
// and node affinity. Their raw scores are the first values of a group.
const maxScaledScores = 2
