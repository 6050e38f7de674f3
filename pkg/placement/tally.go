package placement

// tally sums up, per domain of a topology key, what pods count for: one constraint or term
// of a class. It is kept by differences: what every slot contributed, and where.
type tally struct {
	// axis is the topology key; nil for a sum over everything.
	axis *axis
	// emptyToo counts nodes without the key as of the domain "".
	emptyToo bool
	// picky: included tells by slot whether the node counts; otherwise all do.
	picky    bool
	included []bool
	// at and per are the domain that a slot counts in, nowhere for none, and how much.
	at, per []int32
	// sums and members are by domain: how much, and how many nodes make it.
	sums    []int64
	members []int32
	// total is over all domains.
	total int64
	// version moves with every change.
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

// fill readies a tally that is not picky for what nodes it knows contribute from now on.
func (t *tally) fill(e *Engine) {
	t.grow(e.len())
	for slot, n := range e.infos {
		t.set(slot, n != nil, 0)
	}
}

// domain is where a slot counts if it does.
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

// set replaces what a slot contributes.
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

// bump changes what a slot contributes.
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

// sum of a domain; 0 for one that has none.
func (t *tally) sum(domain int32) int64 {
	if domain < 0 || int(domain) >= len(t.sums) {
		return 0
	}
	return t.sums[domain]
}

// fewest is the smallest sum of a domain that any node makes, and how many such domains
// there are.
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

// column is what groups keep of a tally: the domain of a node or, where every node is a
// domain of its own, the sum of it. With the domain, a group stays what it is when sums
// change; with the sum, nodes with equal sums are one group.
type column struct {
	tally *tally
	how   columnKind
	// hostname is for columnPerNode.
	hostname *axis
	flags    []bool // for columnFlag, by slot
}

type columnKind uint8

const (
	columnDomain columnKind = iota
	columnSum
	// columnPerNode is what the node itself contributes, wherever it counts, and nowhere
	// without a hostname.
	columnPerNode
	// columnFlag is a yes or no of the rule itself.
	columnFlag
)

// newColumn chooses between domain and sum.
func newColumn(t *tally) column {
	if t.axis.crowded == 0 && !t.emptyToo {
		return column{tally: t, how: columnSum}
	}
	return column{tally: t, how: columnDomain}
}

// fits tells whether the choice is still right.
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

// sum is what the domain of a group's nodes sums up to, given the group's value; !ok where
// they are in none.
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
