package columns

import (
	corev1 "k8s.io/api/core/v1"

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
