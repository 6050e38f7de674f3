package placement

import (
	"math"
	"slices"
)

// tally sums up, per domain of a topology key, the contributions of pods to one constraint or term of a class. It
// is updated by differences, and stores what every slot contributed to which domain.
type tally struct {
	// axis is the topology key; nil for a sum over all nodes.
	axis *axis
	// emptyToo counts nodes without the key for the domain "".
	emptyToo bool
	// picky means that included[slot] reports whether the node counts; otherwise all nodes count.
	picky    bool
	included []bool
	// at is the domain to which a slot contributes, nowhere for none; per is how much it contributes.
	at, per []int32
	// sums and members are by domain: the sum, and the number of nodes that form the domain.
	sums    []int64
	members []int32
	// total is the sum over all domains.
	total int64
	// version increases with every change.
	version uint64
}

func (t *tally) grow(slots int) {
	lack := slots - len(t.at)
	if lack <= 0 {
		return
	}
	t.at, t.per = growBy(t.at, lack, nowhere), growBy(t.per, lack, 0)
	if t.picky {
		t.included = growBy(t.included, lack, false)
	}
}

// fill initialises a tally that is not picky, so that the known nodes contribute from now on.
func (t *tally) fill(c *columns) {
	t.grow(c.len())
	for slot, n := range c.infos {
		t.set(slot, n != nil, 0)
	}
}

// domain returns the domain of a slot, if the slot counts.
func (t *tally) domain(slot int) int32 {
	if t.axis == nil {
		return 0
	}
	d := t.axis.of[slot]
	if d == nowhere && t.emptyToo {
		d = t.axis.domain("")
	}
	return d
}

// set replaces the contribution of a slot.
func (t *tally) set(slot int, exists bool, per int32) {
	at := nowhere
	if exists && (!t.picky || t.included[slot]) {
		at = t.domain(slot)
	}
	if at == t.at[slot] && per == t.per[slot] {
		return
	}
	t.version++
	t.add(t.at[slot], -int64(t.per[slot]), -1)
	t.add(at, int64(per), 1)
	t.at[slot], t.per[slot] = at, per
}

// bump changes the contribution of a slot.
func (t *tally) bump(slot int, by int32) {
	t.version++
	t.per[slot] += by
	t.add(t.at[slot], int64(by), 0)
}

func (t *tally) add(domain int32, pods int64, nodes int32) {
	if domain == nowhere {
		return
	}
	if lack := int(domain) + 1 - len(t.sums); lack > 0 {
		t.sums, t.members = growBy(t.sums, lack, 0), growBy(t.members, lack, 0)
	}
	t.sums[domain] += pods
	t.members[domain] += nodes
	t.total += pods
}

// sum returns the sum of a domain; 0 for one without contributions.
func (t *tally) sum(domain int32) int64 {
	if domain < 0 || int(domain) >= len(t.sums) {
		return 0
	}
	return t.sums[domain]
}

// fewest returns the smallest sum of a domain that has at least one node, and the number of such domains.
func (t *tally) fewest() (least int64, domains int) {
	for d, members := range t.members {
		if members == 0 {
			continue
		}
		if domains == 0 || t.sums[d] < least {
			least = t.sums[d]
		}
		domains++
	}
	return least, domains
}

func (t *tally) bytes() int64 {
	return int64(8*len(t.at) + len(t.included) + 12*len(t.sums))
}

// column is the part of a tally that groups keep: the domain of a node or, where every node is a domain of its own,
// the sum of that domain. With the domain, a group stays the same when sums change; with the sum, nodes with equal
// sums form one group.
type column struct {
	tally *tally
	how   columnKind
	// hostname is used by columnPerNode.
	hostname *axis
	flags    []bool // for columnFlag, by slot
}

type columnKind uint8

const (
	columnDomain columnKind = iota
	columnSum
	// columnPerNode is the contribution of the node itself, in whichever domain it counts; nowhereValue for a node
	// without a hostname label.
	columnPerNode
	// columnFlag is a boolean of the rule itself.
	columnFlag
)

// newColumn chooses between domain and sum.
func newColumn(t *tally) column {
	if t.axis.crowded == 0 && !t.emptyToo {
		return column{tally: t, how: columnSum}
	}
	return column{tally: t, how: columnDomain}
}

// fits reports whether the choice is still right.
func (c *column) fits() bool { return c.how != columnSum || c.tally.axis.crowded == 0 }

func (c *column) value(slot int) int64 {
	switch c.how {
	case columnFlag:
		if c.flags[slot] {
			return 1
		}
		return 0
	case columnPerNode:
		if c.hostname.of[slot] == nowhere {
			return nowhereValue
		}
		return int64(c.tally.per[slot])
	}
	d := c.tally.axis.of[slot]
	switch {
	case d == nowhere:
		return nowhereValue
	case c.how == columnSum:
		return c.tally.sum(d)
	default:
		return int64(d)
	}
}

// sum returns the sum of the domain of a group's nodes, given the group's value; ok is false if they are in no
// domain.
func (c *column) sum(value int64) (sum int64, ok bool) {
	switch {
	case value == nowhereValue:
		return 0, false
	case c.how == columnDomain:
		return c.tally.sum(int32(value)), true
	default:
		return value, true
	}
}

// nowhereValue stands for the sum of a domain when the node is in no domain.
const nowhereValue = math.MinInt64

// growBy appends n copies of a value. A class that reuses the arrays of another one keeps their capacity, so old
// content must be overwritten.
func growBy[T any](list []T, n int, value T) []T {
	from := len(list)
	list = slices.Grow(list, n)[:from+n]
	for i := from; i < len(list); i++ {
		list[i] = value
	}
	return list
}
