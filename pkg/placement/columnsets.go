package placement

import (
	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// Places of the built-in resources in a row; extended ones follow.
const (
	rowCPU = iota
	rowMemory
	rowEphemeral
	rowPods
	rowBuiltIn
)

// resourceColumns hold, per slot, a row of capacities and one of what is in use, in the
// units of state.Resources. Rows have a place for every extended resource that any node
// has had; one that no node has needs none: its capacity is 0 everywhere.
type resourceColumns struct {
	extended []string // names of the places after rowBuiltIn
	places   map[string]int
	// capacity and used are rows of width values; nonzero are pairs of cpu and memory in
	// use, with defaults for containers without requests.
	capacity, used, nonzero []int64
	width, rows             int
	// version moves when places do.
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

// place of a resource in a row; !ok when no node has it.
func (r *resourceColumns) place(name string) (int, bool) {
	i, ok := r.places[name]
	return i, ok
}

// row is what a node has and what of it is in use.
func (r *resourceColumns) row(slot int) (capacity, used []int64) {
	from, to := slot*r.width, (slot+1)*r.width
	return r.capacity[from:to:to], r.used[from:to:to]
}

func (r *resourceColumns) grow() {
	r.rows++
	r.capacity = append(r.capacity, make([]int64, r.width)...)
	r.used = append(r.used, make([]int64, r.width)...)
	r.nonzero = append(r.nonzero, 0, 0)
}

func (r *resourceColumns) setNode(slot int, n *state.NodeInfo) {
	have := &n.Node.Allocatable
	for name := range have.Extended {
		if _, ok := r.places[name]; !ok {
			r.widen(name)
		}
	}
	fillRow(r.capacity[slot*r.width:(slot+1)*r.width], have, have.Pods, r.extended)
	r.setUse(slot, n)
}

func (r *resourceColumns) setUse(slot int, n *state.NodeInfo) {
	fillRow(r.used[slot*r.width:(slot+1)*r.width], &n.Requested, int64(n.PodCount()), r.extended)
	r.nonzero[2*slot], r.nonzero[2*slot+1] = n.NonZeroRequested.MilliCPU, n.NonZeroRequested.Memory
}

func fillRow(row []int64, from *state.Resources, pods int64, extended []string) {
	row[rowCPU], row[rowMemory], row[rowEphemeral], row[rowPods] = from.MilliCPU, from.Memory, from.EphemeralStorage, pods
	for i, name := range extended {
		row[rowBuiltIn+i] = from.Extended[name]
	}
}

// widen gives a resource a place. Pods that were there before any node had it are counted
// when their node is next looked at, which is before its capacity is anything but 0.
func (r *resourceColumns) widen(name string) {
	r.places[name] = r.width
	r.extended = append(r.extended, name)
	spread := func(old []int64) []int64 {
		wide := make([]int64, r.rows*(r.width+1))
		for i := range r.rows {
			copy(wide[i*(r.width+1):], old[i*r.width:(i+1)*r.width])
		}
		return wide
	}
	r.capacity, r.used = spread(r.capacity), spread(r.used)
	r.width++
	r.version++
}

// traitColumn gives nodes that are alike in what the simplest rules look at the same
// number: spec.unschedulable, taints and declared features.
type traitColumn struct {
	of  []int32
	ids map[string]int32
	key []byte
}

func (t *traitColumn) set(slot int, n *corev1.Node) {
	t.key = t.key[:0]
	if n.Spec.Unschedulable {
		t.key = append(t.key, 1)
	}
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

// nowhere is the domain of a node without the key.
const nowhere int32 = -1

// axis is one topology key: the domain of every slot.
type axis struct {
	key string
	of  []int32
	ids map[string]int32
	// members counts the nodes of each domain; crowded is how many domains have several.
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

// domain numbers a value of the key.
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
	live int // kinds that any pod is of
}

type kindRow struct {
	kind *state.Kind
	pods int
}

type kindCount struct{ kind, pods int32 }

// add counts pods of a kind on a slot. A pod that no fact has described has no kind, and no
// rule about other pods can tell that it is there.
func (k *kindColumn) add(slot int, kind *state.Kind, by int32) {
	if kind == nil {
		return
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
		return
	}
	k.of[slot] = append(counts, kindCount{id, by})
}

// recount counts all pods of a node anew; nil takes them away.
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
