package columns

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// NoKind is the kind of a move that is not about a pod, or about a pod without a kind.
const NoKind int32 = -1

// kindColumn counts, per slot, the pods of each kind. Replicas of one Deployment are of one kind, so that a node
// with fifty pods may have ten kinds, and rules about other pods look at ten things instead of fifty.
type kindColumn struct {
	ids map[*state.PodClass]int32
	// List holds the kinds by number, with the number of their pods on all nodes; Of holds the counts per slot,
	// in no order.
	List []kindRow
	Of   [][]kindCount
	Live int // kinds that at least one pod has
}

type kindRow struct {
	Kind *state.PodClass
	pods int
}

type kindCount struct{ Kind, Pods int32 }

// add counts pods of a kind on a slot and returns the kind's number. A pod that no fact has described has no kind,
// and the rules about other pods cannot see it.
func (k *kindColumn) add(slot int, kind *state.PodClass, by int32) int32 {
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
