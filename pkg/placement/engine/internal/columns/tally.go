package columns

import (
	"math"
	"slices"
)

// Tally sums up, per domain of a topology key, the contributions of pods to one constraint or term of a class. It
// is updated by differences, and stores what every slot contributed to which domain: so a node that moves to
// another zone is taken out of the old one without looking at its pods.
//
// The zero value with an Axis counts all nodes that have the key.
type Tally struct {
	// Axis is the topology key; nil for a sum over all nodes.
	Axis *axis
	// CountsMissing counts nodes without the key for the domain "", as soft spread constraints do.
	CountsMissing bool
	// Selective means that Included[slot] reports whether the node counts; otherwise all nodes count.
	Selective bool
	Included  []bool
	// domains holds the domain to which a slot contributes, NoDomain for none; amounts is how much it
	// contributes.
	domains, amounts []int32
	// sums and members are by domain: the sum, and the number of nodes that form the domain. A domain without
	// pods but with nodes is one with the sum 0, which matters for the smallest.
	sums    []int64
	members []int32
	// Total is the sum over all domains.
	Total int64
	// Version increases with every change, so that results computed from all domains can be kept until it does.
	Version uint64
}

// Grow makes place for this many slots. New slots contribute nothing.
func (t *Tally) Grow(slots int) {
	lack := slots - len(t.domains)
	if lack <= 0 {
		return
	}
	t.domains, t.amounts = GrowBy(t.domains, lack, NoDomain), GrowBy(t.amounts, lack, 0)
	if t.Selective {
		t.Included = GrowBy(t.Included, lack, false)
	}
}

// Fill initialises a tally that is not selective, so that the known nodes contribute from now on.
func (t *Tally) Fill(c *Columns) {
	t.Grow(c.Len())
	for slot, n := range c.Infos {
		t.Set(slot, n != nil, 0)
	}
}

// domain returns the domain of a slot, if the slot counts. Without an axis there is one domain, 0.
func (t *Tally) domain(slot int) int32 {
	if t.Axis == nil {
		return 0
	}
	d := t.Axis.Of[slot]
	if d == NoDomain && t.CountsMissing {
		d = t.Axis.Domain("")
	}
	return d
}

// Set replaces the contribution of a slot: whether its node exists, and the amount. It moves the contribution if
// the domain of the slot has changed.
func (t *Tally) Set(slot int, exists bool, per int32) {
	at := NoDomain
	if exists && (!t.Selective || t.Included[slot]) {
		at = t.domain(slot)
	}
	if at == t.domains[slot] && per == t.amounts[slot] {
		return
	}
	t.Version++
	t.add(t.domains[slot], -int64(t.amounts[slot]), -1)
	t.add(at, int64(per), 1)
	t.domains[slot], t.amounts[slot] = at, per
}

// Add changes the contribution of a slot by an amount. The domain stays.
func (t *Tally) Add(slot int, by int32) {
	t.Version++
	t.amounts[slot] += by
	t.add(t.domains[slot], int64(by), 0)
}

// add adds pods and nodes to a domain and to the total; NoDomain is ignored.
func (t *Tally) add(domain int32, pods int64, nodes int32) {
	if domain == NoDomain {
		return
	}
	if lack := int(domain) + 1 - len(t.sums); lack > 0 {
		t.sums, t.members = GrowBy(t.sums, lack, 0), GrowBy(t.members, lack, 0)
	}
	t.sums[domain] += pods
	t.members[domain] += nodes
	t.Total += pods
}

// Sum returns the sum of a domain; 0 for one without contributions.
func (t *Tally) Sum(domain int32) int64 {
	if domain < 0 || int(domain) >= len(t.sums) {
		return 0
	}
	return t.sums[domain]
}

// Flat reports whether the sums of all domains are 0. It looks at all domains.
func (t *Tally) Flat() bool {
	return !slices.ContainsFunc(t.sums, func(sum int64) bool { return sum != 0 })
}

// Fewest returns the smallest sum of a domain that has at least one node, and the number of such domains; 0, 0 if
// there is none. It looks at all domains.
func (t *Tally) Fewest() (least int64, domains int) {
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

// Bytes returns about how much memory the tally takes.
func (t *Tally) Bytes() int64 {
	return int64(8*len(t.domains) + len(t.Included) + 12*len(t.sums))
}

// Column is the part of a tally that groups keep: the domain of a node or, where every node is a domain of its
// own, the sum of that domain. With the domain, a group stays the same when sums change; with the sum, nodes with
// equal sums form one group.
//
// For zones, the domain is right: three groups, whatever starts or ends. For hostnames, the domain would make one
// group per node, and a decision would cost as much as without groups; sums are small numbers that many nodes
// share.
type Column struct {
	Tally *Tally
	How   columnKind
	// Hostname is the axis of the hostname label, for ColumnPerNode.
	Hostname *axis
	Flags    []bool // for ColumnFlag, by slot
}

// columnKind is how a column gets its value.
type columnKind uint8

const (
	// columnDomain is the number of the domain; NoDomainValue without one.
	columnDomain columnKind = iota
	// columnSum is the sum of the domain. It is used while no domain has two nodes.
	columnSum
	// ColumnPerNode is the contribution of the node itself, in whichever domain it counts; NoDomainValue for a node
	// without a hostname label.
	ColumnPerNode
	// ColumnFlag is a boolean of the rule itself.
	ColumnFlag
)

// NewColumn chooses between domain and sum. The tally must have an axis.
func NewColumn(t *Tally) Column {
	if t.Axis.crowded == 0 && !t.CountsMissing {
		return Column{Tally: t, How: columnSum}
	}
	return Column{Tally: t, How: columnDomain}
}

// Fits reports whether the choice is still right: sums are wrong as soon as two nodes share a domain, because a
// change on one of them would then have to regroup the other.
func (c *Column) Fits() bool { return c.How != columnSum || c.Tally.Axis.crowded == 0 }

// Value returns the value of a slot, for its group.
func (c *Column) Value(slot int) int64 {
	switch c.How {
	case ColumnFlag:
		if c.Flags[slot] {
			return 1
		}
		return 0
	case ColumnPerNode:
		if c.Hostname.Of[slot] == NoDomain {
			return NoDomainValue
		}
		return int64(c.Tally.amounts[slot])
	}
	d := c.Tally.Axis.Of[slot]
	switch {
	case d == NoDomain:
		return NoDomainValue
	case c.How == columnSum:
		return c.Tally.Sum(d)
	default:
		return int64(d)
	}
}

// Sum returns the sum of the domain of a group's nodes, given the group's value; ok is false if they are in no
// domain.
func (c *Column) Sum(value int64) (sum int64, ok bool) {
	switch {
	case value == NoDomainValue:
		return 0, false
	case c.How == columnDomain:
		return c.Tally.Sum(int32(value)), true
	default:
		return value, true
	}
}

// NoDomainValue stands for the value of a node that is in no domain. No sum is as small.
const NoDomainValue = math.MinInt64

// GrowBy appends n copies of a value. A class that reuses the arrays of another one keeps their capacity, so old
// content must be overwritten.
func GrowBy[T any](list []T, n int, value T) []T {
	from := len(list)
	list = slices.Grow(list, n)[:from+n]
	for i := from; i < len(list); i++ {
		list[i] = value
	}
	return list
}
