package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// wide is what the rules about other pods keep for a class. A pod on a node counts for
// them by its kind alone, so that relations of kinds are worked out once and a node is a
// sum over the kinds on it.
type wide struct {
	// active: there is something to keep. A class whose own pods ask for nothing becomes
	// active with the first kind of pod that has something to say about them.
	active  bool
	judges  []judge
	rankers []ranker
	tallies []*tally
	// byKind says for every kind of the engine what one pod of it counts for: 0 not known
	// yet, 1 nothing, otherwise an index into relations, plus 2.
	byKind    []int32
	relations [][]contribution
	// met is how many kinds of the engine have been asked whether they make it active.
	met int
	// sums is scratch: what the pods of one node count for, per tally.
	sums    []int32
	scratch []contribution
	survey  survey
}

// contribution is what one pod adds to a tally.
type contribution struct {
	tally int
	value int32
}

// judge is a hard rule over tallies.
type judge interface {
	// index in the plan's filters.
	index() int16
	// relate adds what a pod of a kind counts for.
	relate(w *wide, e *Engine, k *state.Kind)
	// restate looks at a node's object again.
	restate(w *wide, slot int, n *state.NodeInfo)
	// prepare is called before passes, after anything changed.
	prepare(w *wide, e *Engine)
	// passes tells whether a node passes, and if not which reason it has.
	passes(w *wide, slot int) (ok bool, why uint8)
	reason(why uint8) string
}

// ranker is a soft rule over tallies.
type ranker interface {
	relate(w *wide, e *Engine, k *state.Kind)
	restate(w *wide, slot int, n *state.NodeInfo)
	// rate adds weighted scores to totals, both in the order of feasible.
	rate(c *class, e *Engine, feasible []int32, totals []int64)
}

// newTally adds a tally and returns its number.
func (w *wide) newTally(t *tally) int {
	w.tallies = append(w.tallies, t)
	return len(w.tallies) - 1
}

// meet looks at kinds that are new, and makes room for slots that are.
func (w *wide) meet(c *class, e *Engine) {
	if !w.active {
		for ; w.met < len(e.kinds.list) && !w.active; w.met++ {
			k := e.kinds.list[w.met].kind
			w.active = k.Terms != nil && len(w.relationOf(e, int32(w.met))) > 0
		}
		if !w.active {
			return
		}
		c.seen = 0 // everything has to be counted
	}
	for _, t := range w.tallies {
		t.grow(e.len())
	}
}

// relationOf is what one pod of a kind counts for.
func (w *wide) relationOf(e *Engine, kind int32) []contribution {
	if lack := len(e.kinds.list) - len(w.byKind); lack > 0 {
		w.byKind = growBy(w.byKind, lack, 0)
	}
	switch known := w.byKind[kind]; known {
	case 0:
		return w.relate(e, kind)
	case 1:
		return nil
	default:
		return w.relations[known-2]
	}
}

func (w *wide) relate(e *Engine, kind int32) []contribution {
	w.scratch = w.scratch[:0]
	k := e.kinds.list[kind].kind
	for _, j := range w.judges {
		j.relate(w, e, k)
	}
	for _, r := range w.rankers {
		r.relate(w, e, k)
	}
	if len(w.scratch) == 0 {
		w.byKind[kind] = 1
		return nil
	}
	relation := append([]contribution(nil), w.scratch...)
	w.relations = append(w.relations, relation)
	w.byKind[kind] = int32(len(w.relations)) + 1
	return relation
}

// adds notes a contribution of the kind being related.
func (w *wide) adds(tally int, value int32) {
	for i := range w.scratch {
		if w.scratch[i].tally == tally {
			w.scratch[i].value += value
			return
		}
	}
	w.scratch = append(w.scratch, contribution{tally, value})
}

// count sums up the pods of a node.
func (w *wide) count(e *Engine, slot int, restated bool) {
	n := e.infos[slot]
	if restated && n != nil {
		for _, j := range w.judges {
			j.restate(w, slot, n)
		}
		for _, r := range w.rankers {
			r.restate(w, slot, n)
		}
	}
	clear(w.sums)
	for _, k := range e.kinds.of[slot] {
		for _, by := range w.relationOf(e, k.kind) {
			for len(w.sums) <= by.tally {
				w.sums = append(w.sums, 0)
			}
			w.sums[by.tally] += by.value * k.pods
		}
	}
	for i, t := range w.tallies {
		t.grow(e.len())
		var per int32
		if i < len(w.sums) {
			per = w.sums[i]
		}
		t.set(slot, n != nil, per)
	}
}

func (w *wide) bytes() int64 {
	size := int64(4 * len(w.byKind))
	for _, t := range w.tallies {
		size += t.bytes()
	}
	return size + w.survey.bytes()
}
