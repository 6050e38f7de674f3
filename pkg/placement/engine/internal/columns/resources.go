package columns

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
	"github.com/berth-scheduler/berth/pkg/state/resources"
)

// Positions of the built-in resources in a row; extended ones follow.
const (
	RowCPU = iota
	RowMemory
	rowEphemeral
	RowPods
	rowBuiltIn
)

// Resources holds a row per slot: the capacities, how much of them is in use, and the cpu and memory in use with
// defaults for containers without requests, in the units of resources.Resources. Every extended resource that any
// node has had has a position. One that no node has needs none: its capacity is 0 everywhere.
//
// With one extended resource (g), the row of a slot is 12 numbers:
//
//	cpu memory ephemeral pods g | cpu memory ephemeral pods g | cpu memory
//	capacity                      in use                        in use with defaults
//
// All rows are in one array, so that a check of one node reads a few cache lines.
type Resources struct {
	extended []string // names of the resources at the positions after rowBuiltIn
	// places maps the name of a resource to its position in a row.
	places map[string]int
	// width is the number of capacities, and of amounts in use.
	width int // of the capacities, and of the amounts in use
	rows  []int64
	// Version increases when positions are added. Plans resolve names to positions and are made again when it
	// does.
	Version uint64
}

func newResourceColumns() Resources {
	return Resources{
		width: rowBuiltIn,
		places: map[string]int{
			string(corev1.ResourceCPU): RowCPU, string(corev1.ResourceMemory): RowMemory,
			string(corev1.ResourceEphemeralStorage): rowEphemeral, string(corev1.ResourcePods): RowPods,
		},
	}
}

// Place returns the position of a resource in a row; ok is false when no node has it.
func (r *Resources) Place(name string) (int, bool) {
	i, ok := r.places[name]
	return i, ok
}

// stride returns the length of a row.
func (r *Resources) stride() int { return 2*r.width + rowNonZero }

// rowNonZero is the number of values with defaults at the end of a row: cpu and memory.
const rowNonZero = 2

// Row returns a node's capacity, the amounts in use, and the cpu and memory in use with defaults.
func (r *Resources) Row(slot int) (capacity, used, nonzero []int64) {
	stride := r.stride()
	row := r.rows[slot*stride : (slot+1)*stride : (slot+1)*stride]
	return row[:r.width], row[r.width : 2*r.width], row[2*r.width:]
}

// grow adds a row of zeros.
func (r *Resources) grow() { r.rows = append(r.rows, make([]int64, r.stride())...) }

// setNode sets the capacities of a slot, and what is in use. A resource that no node has had adds a position to
// all rows.
func (r *Resources) setNode(slot int, n *state.NodeInfo) {
	have := &n.Node.Allocatable
	for name := range have.Extended {
		if _, ok := r.places[name]; !ok {
			r.widen(name)
		}
	}
	capacity, _, _ := r.Row(slot)
	fillRow(capacity, have, have.Pods, r.extended)
	r.setUse(slot, n)
}

// setUse sets what is in use on a slot, from the sums that the NodeInfo keeps.
func (r *Resources) setUse(slot int, n *state.NodeInfo) {
	_, used, nonzero := r.Row(slot)
	fillRow(used, &n.Requested, int64(n.PodCount()), r.extended)
	nonzero[RowCPU], nonzero[RowMemory] = n.NonZeroRequested.MilliCPU, n.NonZeroRequested.Memory
}

// fillRow writes amounts at the positions of a row; extended holds the names of those after the built-in ones.
func fillRow(row []int64, from *resources.Resources, pods int64, extended []string) {
	row[RowCPU] = from.MilliCPU
	row[RowMemory] = from.Memory
	row[rowEphemeral] = from.EphemeralStorage
	row[RowPods] = pods
	for i, name := range extended {
		row[rowBuiltIn+i] = from.Extended[name]
	}
}

// widen adds a position for a resource. Pods that requested it before any node had it are counted when their node
// is next updated, which happens before its capacity is anything but 0.
func (r *Resources) widen(name string) {
	wider := Resources{width: r.width + 1}
	slots := len(r.rows) / r.stride()
	wider.rows = make([]int64, slots*wider.stride())
	for slot := range slots {
		capacity, used, nonzero := wider.Row(slot)
		oldCapacity, oldUsed, oldNonZero := r.Row(slot)
		copy(capacity, oldCapacity)
		copy(used, oldUsed)
		copy(nonzero, oldNonZero)
	}
	r.places[name] = r.width
	r.extended = append(r.extended, name)
	r.rows, r.width = wider.rows, wider.width
	r.Version++
}

// traitColumn gives the same number to nodes that are alike for the simplest rules: whether they are closed or
// spec.unschedulable, their taints and their declared features. Clusters have thousands of nodes and a handful of
// such combinations.
type traitColumn struct {
	Of []int32
	// IDs maps the combination, written as bytes, to its number; key is scratch.
	IDs map[string]int32
	key []byte
}

// set determines the combination of a node. Taints and features keep their order: nodes that differ only in that
// get different numbers, which costs an evaluation and nothing else.
func (t *traitColumn) set(slot int, n *corev1.Node) {
	kept := byte(0)
	switch {
	case state.Closed(n):
		kept = 2
	case n.Spec.Unschedulable:
		kept = 1
	}
	t.key = append(t.key[:0], kept)
	for i := range n.Spec.Taints {
		taint := &n.Spec.Taints[i]
		t.key = rule.AppendPart(rule.AppendPart(rule.AppendPart(t.key, taint.Key), taint.Value), string(taint.Effect))
	}
	t.key = append(t.key, 0)
	for _, feature := range n.Status.DeclaredFeatures {
		t.key = rule.AppendPart(t.key, feature)
	}
	id, ok := t.IDs[string(t.key)]
	if !ok {
		id = int32(len(t.IDs))
		t.IDs[string(t.key)] = id
	}
	t.Of[slot] = id
}

// NoDomain is the domain of a node that does not have the key.
const NoDomain int32 = -1

// axis is one topology key, with the domain of every slot.
type axis struct {
	key string
	// Of is the domain of each slot, NoDomain for a node without the label; IDs maps the values of the label to
	// numbers.
	Of  []int32
	IDs map[string]int32
	// members counts the nodes of each domain; crowded is the number of domains with more than one node. It is 0
	// for the hostname label, and then a domain is the same as a node.
	members []int32
	crowded int
}

// set updates the domain of a slot; nil labels remove it.
func (a *axis) set(slot int, nodeLabels map[string]string) {
	now := NoDomain
	if value, ok := nodeLabels[a.key]; ok {
		now = a.Domain(value)
	}
	if was := a.Of[slot]; was != now {
		a.count(was, -1)
		a.count(now, 1)
		a.Of[slot] = now
	}
}

// count adds nodes to a domain or, if by is negative, removes them, and keeps crowded right.
func (a *axis) count(domain, by int32) {
	if domain == NoDomain {
		return
	}
	before := a.members[domain]
	a.members[domain] += by
	if before == 1 && by > 0 {
		a.crowded++
	}
	if before == 2 && by < 0 {
		a.crowded--
	}
}

// Domain returns the number of a value of the key, which is assigned at the first call.
func (a *axis) Domain(value string) int32 {
	id, ok := a.IDs[value]
	if !ok {
		id = int32(len(a.IDs))
		a.IDs[value] = id
		a.members = append(a.members, 0)
	}
	return id
}

// kindColumn counts, per slot, the pods of each kind. Replicas of one Deployment are of one kind, so that a node
// with fifty pods may have ten kinds, and rules about other pods look at ten things instead of fifty.
type kindColumn struct {
	ids map[*state.Kind]int32
	// List holds the kinds by number, with the number of their pods on all nodes; Of holds the counts per slot,
	// in no order.
	List []kindRow
	Of   [][]kindCount
	Live int // kinds that at least one pod has
}

type kindRow struct {
	Kind *state.Kind
	pods int
}

type kindCount struct{ Kind, Pods int32 }

// add counts pods of a kind on a slot and returns the kind's number. A pod that no fact has described has no kind,
// and the rules about other pods cannot see it.
func (k *kindColumn) add(slot int, kind *state.Kind, by int32) int32 {
	if kind == nil {
		return NoKind
	}
	id, ok := k.ids[kind]
	if !ok {
		id = int32(len(k.List))
		k.ids[kind] = id
		k.List = append(k.List, kindRow{Kind: kind})
	}
	row := &k.List[id]
	if row.pods == 0 {
		k.Live++
	}
	if row.pods += int(by); row.pods == 0 {
		k.Live--
	}
	counts := k.Of[slot]
	for i := range counts {
		if counts[i].Kind != id {
			continue
		}
		if counts[i].Pods += by; counts[i].Pods == 0 {
			counts[i] = counts[len(counts)-1]
			k.Of[slot] = counts[:len(counts)-1]
		}
		return id
	}
	k.Of[slot] = append(counts, kindCount{id, by})
	return id
}

// recount counts all pods of a node from scratch; nil removes them.
func (k *kindColumn) recount(slot int, n *state.NodeInfo) {
	for _, c := range k.Of[slot] {
		if k.List[c.Kind].pods -= int(c.Pods); k.List[c.Kind].pods == 0 {
			k.Live--
		}
	}
	k.Of[slot] = k.Of[slot][:0]
	if n == nil {
		return
	}
	for p := range n.Pods() {
		k.add(slot, p.Kind, 1)
	}
}
