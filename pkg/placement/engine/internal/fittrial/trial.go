package fittrial

import (
	"math/bits"
	"slices"

	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/placement/internal/fit"
	"github.com/berth-scheduler/berth/pkg/placement/preempt"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Column holds the pods of every node by importance, with the values that a dry run of preemption
// reads. The entries of a node are built when they are first needed after the node changed: a cluster in which no
// pod preempts never builds any.
type Column struct {
	of []nodePods
}

// nodePods holds the pods of one node, the most important first.
type nodePods struct {
	entries []Entry
	// made is the time as of which it is valid.
	made columns.Time
}

// Entry is a pod with its requests in plain numbers: milli-CPU, and bytes of memory and of ephemeral storage.
type Entry struct {
	placement.PlacedPod
	milliCPU, memory, storage int64
}

// At returns the entries of a slot that has a node. The slice is valid until the node changes.
func (l *Column) At(cols *columns.Columns, slot int) []Entry {
	if lack := cols.Len() - len(l.of); lack > 0 {
		l.of = columns.GrowBy(l.of, lack, nodePods{})
	}
	one := &l.of[slot]
	if cols.Journal.IsCurrent(slot, one.made) {
		return one.entries
	}
	one.made = cols.Journal.Time()
	one.entries = one.entries[:0]
	n := cols.Infos[slot]
	for p := range n.Pods() {
		one.entries = append(one.entries, Entry{
			PlacedPod: preempt.PlacedPodOf(n, p), milliCPU: p.Requests.MilliCPU, memory: p.Requests.Memory,
			storage: p.Requests.EphemeralStorage,
		})
	}
	slices.SortFunc(one.entries, func(a, b Entry) int { return preempt.ByImportance(a.PlacedPod, b.PlacedPod) })
	return one.entries
}

// Trial is the search of preempt.nodeTrial for victims, computed in numbers, for a pod that only
// NodeResourcesFit keeps off a node. It neither clones a node nor calls a rule. Source: plugins/defaultpreemption
// SelectVictimsOnNode.
type Trial struct {
	fit *fit.Filter
	// free holds the free resources of the node: the basic resources, then those of fit.Extended, then the number
	// of pods.
	free []int64
	// Victims are those of the last Take, the most important first.
	Victims []placement.PlacedPod
}

// New returns a trial of the filter, which may request at most 60 extended resources: the bits of lacks are 64.
func New(f *fit.Filter) *Trial { return &Trial{fit: f} }

// basicResources counts cpu, memory and ephemeral storage, which come first in Trial.free.
const basicResources = 3

// Begin starts with the node as it is.
func (t *Trial) Begin(n *state.NodeInfo) {
	total, used := &n.Node.Allocatable, &n.Requested
	t.free = append(t.free[:0],
		total.MilliCPU-used.MilliCPU, total.Memory-used.Memory, total.EphemeralStorage-used.EphemeralStorage)
	for i := range t.fit.Extended {
		name := t.fit.Extended[i].Name
		t.free = append(t.free, total.Extended[name]-used.Extended[name])
	}
	t.free = append(t.free, total.Pods-int64(n.PodCount()))
}

// move removes a pod from the node (by is 1: its requests become free) or puts it back (-1).
func (t *Trial) move(r *Entry, by int64) {
	t.free[0] += by * r.milliCPU
	t.free[1] += by * r.memory
	t.free[2] += by * r.storage
	for i := range t.fit.Extended {
		t.free[basicResources+i] += by * r.Pod.Requests.Extended[t.fit.Extended[i].Name]
	}
	t.free[len(t.free)-1] += by
}

// lacks returns a bit for every resource of which there is too little, in the order of free; 0 if the pod fits.
func (t *Trial) lacks() (mask uint64) {
	want := &t.fit.Request
	for i, v := range [basicResources]int64{want.MilliCPU, want.Memory, want.EphemeralStorage} {
		if v > 0 && v > t.free[i] {
			mask |= 1 << i
		}
	}
	for i := range t.fit.Extended {
		if t.fit.Extended[i].Value > t.free[basicResources+i] {
			mask |= 1 << (basicResources + i)
		}
	}
	if t.free[len(t.free)-1] < 1 {
		mask |= 1 << (len(t.free) - 1)
	}
	return mask
}

// Take searches for the fewest pods that have to be evicted. All are removed; then, from the most important to
// the least, each is put back if the pod still fits. It returns what the pod lacks when all of them are removed,
// 0 if that is enough. Example: with 2 CPUs free, pods of 4, 3 and 1 CPUs and a request of 4, the pods of 4 and 1
// are put back, and the pod of 3 is the victim.
func (t *Trial) Take(entries []Entry) (lacks uint64) {
	for i := range entries {
		t.move(&entries[i], 1)
	}
	if lacks = t.lacks(); lacks != 0 {
		return lacks
	}
	t.Victims = t.Victims[:0]
	for i := range entries {
		t.move(&entries[i], -1)
		if t.lacks() != 0 {
			t.move(&entries[i], 1)
			t.Victims = append(t.Victims, entries[i].PlacedPod)
		}
	}
	return 0
}

// Reasons returns those of fit.Filter.Explain for what is lacking.
func (t *Trial) Reasons(lacks uint64) []string {
	list := make([]string, 0, bits.OnesCount64(lacks))
	if lacks>>(len(t.free)-1)&1 == 1 {
		list = append(list, fit.TooManyPods)
	}
	for i, name := range [basicResources]string{"cpu", "memory", "ephemeral-storage"} {
		if lacks>>i&1 == 1 {
			list = append(list, fit.Insufficient(name))
		}
	}
	for i := range t.fit.Extended {
		if lacks>>(basicResources+i)&1 == 1 {
			list = append(list, fit.Insufficient(t.fit.Extended[i].Name))
		}
	}
	return list
}
