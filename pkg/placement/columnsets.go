package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Positions of the built-in resources in a row; extended ones follow.
const (
	rowCPU = iota
	rowMemory
	rowEphemeral
	rowPods
	rowBuiltIn
)

// resourceColumns holds a row per slot: the capacities, how much of them is in use, and the cpu and memory in use
// with defaults for containers without requests, in the units of state.Resources. Every extended resource that any
// node has had has a position. One that no node has needs none: its capacity is 0 everywhere.
type resourceColumns struct {
	extended []string // names of the resources at the positions after rowBuiltIn
	places   map[string]int
	width    int // of the capacities, and of the amounts in use
	rows     []int64
	// version increases when positions are added.
	version uint64
}

func newResourceColumns() resourceColumns {
	return resourceColumns{
		width: rowBuiltIn,
		places: map[string]int{
			string(corev1.ResourceCPU): rowCPU, string(corev1.ResourceMemory): rowMemory,
			string(corev1.ResourceEphemeralStorage): rowEphemeral, string(corev1.ResourcePods): rowPods,
		},
	}
}

// place returns the position of a resource in a row; ok is false when no node has it.
func (r *resourceColumns) place(name string) (int, bool) {
	i, ok := r.places[name]
	return i, ok
}

// stride returns the length of a row.
func (r *resourceColumns) stride() int { return 2*r.width + rowNonZero }

// rowNonZero is the number of values with defaults at the end of a row: cpu and memory.
const rowNonZero = 2

// row returns a node's capacity, the amounts in use, and the cpu and memory in use with defaults.
func (r *resourceColumns) row(slot int) (capacity, used, nonzero []int64) {
	stride := r.stride()
	row := r.rows[slot*stride : (slot+1)*stride : (slot+1)*stride]
	return row[:r.width], row[r.width : 2*r.width], row[2*r.width:]
}

func (r *resourceColumns) grow() { r.rows = append(r.rows, make([]int64, r.stride())...) }

func (r *resourceColumns) setNode(slot int, n *state.NodeInfo) {
	have := &n.Node.Allocatable
	for name := range have.Extended {
		if _, ok := r.places[name]; !ok {
			r.widen(name)
		}
	}
	capacity, _, _ := r.row(slot)
	fillRow(capacity, have, have.Pods, r.extended)
	r.setUse(slot, n)
}

func (r *resourceColumns) setUse(slot int, n *state.NodeInfo) {
	_, used, nonzero := r.row(slot)
	fillRow(used, &n.Requested, int64(n.PodCount()), r.extended)
	nonzero[rowCPU], nonzero[rowMemory] = n.NonZeroRequested.MilliCPU, n.NonZeroRequested.Memory
}

func fillRow(row []int64, from *state.Resources, pods int64, extended []string) {
	row[rowCPU] = from.MilliCPU
	row[rowMemory] = from.Memory
	row[rowEphemeral] = from.EphemeralStorage
	row[rowPods] = pods
	for i, name := range extended {
		row[rowBuiltIn+i] = from.Extended[name]
	}
}

// widen adds a position for a resource. Pods that requested it before any node had it are counted when their node
// is next updated, which happens before its capacity is anything but 0.
func (r *resourceColumns) widen(name string) {
	wide := resourceColumns{width: r.width + 1}
	slots := len(r.rows) / r.stride()
	wide.rows = make([]int64, slots*wide.stride())
	for slot := range slots {
		capacity, used, nonzero := wide.row(slot)
		oldCapacity, oldUsed, oldNonZero := r.row(slot)
		copy(capacity, oldCapacity)
		copy(used, oldUsed)
		copy(nonzero, oldNonZero)
	}
	r.places[name] = r.width
	r.extended = append(r.extended, name)
	r.rows, r.width = wide.rows, wide.width
	r.version++
}

// traitColumn gives the same number to nodes that are alike for the simplest rules: whether they are closed or
// spec.unschedulable, their taints and their declared features.
type traitColumn struct {
	of  []int32
	ids map[string]int32
	key []byte
}

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
		t.key = appendPart(appendPart(appendPart(t.key, taint.Key), taint.Value), string(taint.Effect))
	}
	t.key = append(t.key, 0)
	for _, feature := range n.Status.DeclaredFeatures {
		t.key = appendPart(t.key, feature)
	}
	id, ok := t.ids[string(t.key)]
	if !ok {
		id = int32(len(t.ids))
		t.ids[string(t.key)] = id
	}
	t.of[slot] = id
}

// nowhere is the domain of a node that does not have the key.
const nowhere int32 = -1

// axis is one topology key, with the domain of every slot.
type axis struct {
	key string
	of  []int32
	ids map[string]int32
	// members counts the nodes of each domain; crowded is the number of domains with more than one node.
	members []int32
	crowded int
}

func (a *axis) set(slot int, nodeLabels map[string]string) {
	now := nowhere
	if value, ok := nodeLabels[a.key]; ok {
		now = a.domain(value)
	}
	if was := a.of[slot]; was != now {
		a.count(was, -1)
		a.count(now, 1)
		a.of[slot] = now
	}
}

func (a *axis) count(domain, by int32) {
	if domain == nowhere {
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

// domain returns the number of a value of the key.
func (a *axis) domain(value string) int32 {
	id, ok := a.ids[value]
	if !ok {
		id = int32(len(a.ids))
		a.ids[value] = id
		a.members = append(a.members, 0)
	}
	return id
}

// kindColumn counts, per slot, the pods of each kind.
type kindColumn struct {
	ids  map[*state.Kind]int32
	list []kindRow
	of   [][]kindCount
	live int // kinds that at least one pod has
}

type kindRow struct {
	kind *state.Kind
	pods int
}

type kindCount struct{ kind, pods int32 }

// add counts pods of a kind on a slot and returns the kind's number. A pod that no fact has described has no kind,
// and the rules about other pods cannot see it.
func (k *kindColumn) add(slot int, kind *state.Kind, by int32) int32 {
	if kind == nil {
		return noKind
	}
	id, ok := k.ids[kind]
	if !ok {
		id = int32(len(k.list))
		k.ids[kind] = id
		k.list = append(k.list, kindRow{kind: kind})
	}
	row := &k.list[id]
	if row.pods == 0 {
		k.live++
	}
	if row.pods += int(by); row.pods == 0 {
		k.live--
	}
	counts := k.of[slot]
	for i := range counts {
		if counts[i].kind != id {
			continue
		}
		if counts[i].pods += by; counts[i].pods == 0 {
			counts[i] = counts[len(counts)-1]
			k.of[slot] = counts[:len(counts)-1]
		}
		return id
	}
	k.of[slot] = append(counts, kindCount{id, by})
	return id
}

// recount counts all pods of a node from scratch; nil removes them.
func (k *kindColumn) recount(slot int, n *state.NodeInfo) {
	for _, c := range k.of[slot] {
		if k.list[c.kind].pods -= int(c.pods); k.list[c.kind].pods == 0 {
			k.live--
		}
	}
	k.of[slot] = k.of[slot][:0]
	if n == nil {
		return
	}
	for p := range n.Pods() {
		k.add(slot, p.Kind, 1)
	}
}
