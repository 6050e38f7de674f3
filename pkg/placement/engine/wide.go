package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// wideKey holds the properties that the pods of classes sharing a wide have in common.
type wideKey struct {
	profile *placement.Profile
	kind    *state.Kind
	shape   string
}

// wide is the state that the rules about other pods keep for the classes whose pods are the same for those rules. A
// pod on a node counts only by its kind, so the relations of kinds are computed once, and a node is a sum over the
// kinds on it.
type wide struct {
	key   wideKey
	users int // number of classes
	basis wideBasis
	// seen is the journal time up to which everything below is valid.
	seen uint64
	wideRules
	// byKind maps every kind of the engine to what one pod of it counts for: 0 means unknown yet, 1 nothing,
	// otherwise an index into relations, plus 2.
	byKind    []int32
	relations [][]contribution
	// met is how many kinds of the engine have been checked for whether they activate it.
	met int
	// sums is scratch: what the pods of one node count for, per tally.
	sums    []int32
	scratch []contribution
	// counted is its size as counted by the cache.
	counted int64
}

// wideBasis holds the inputs of a wide in addition to the pod: versions, and the contents of objects (see
// objectDigest).
type wideBasis struct {
	objects, epoch uint64
	digest         string
}

// wideRules holds the rules with their tallies.
type wideRules struct {
	// active reports that there is something to keep. A class whose own pods have no such rules becomes active with
	// the first kind of pod whose terms concern them.
	active  bool
	judges  []judge
	rankers []ranker
	tallies []*columns.Tally
	// columns are the parts of the tallies that groups keep.
	columns []columns.Column
}

// catchUp counts what changed since the wide was last used.
func (w *wide) catchUp(cols *columns.Columns) {
	w.meet(cols)
	if !w.active || w.seen == cols.Journal.Now {
		return
	}
	for _, t := range w.tallies {
		t.Grow(cols.Len())
	}
	if w.seen == 0 || cols.Journal.IsFar(w.seen) {
		for slot, at := range cols.Journal.Moved {
			if at > w.seen {
				w.restate(cols, slot)
			}
		}
	} else {
		w.follow(cols)
	}
	w.seen = cols.Journal.Now
}

// follow processes the moves one by one. A restated node is counted as it is now, which includes its other moves.
func (w *wide) follow(cols *columns.Columns) {
	for at := w.seen + 1; at <= cols.Journal.Now; at++ {
		m := &cols.Journal.Last[at%columns.JournalSize]
		slot := int(m.Slot)
		switch restated := cols.Journal.Restated[slot]; {
		case restated == at:
			w.restate(cols, slot)
		case restated <= w.seen && m.Kind != columns.NoKind:
			w.bump(cols, m)
		}
	}
}

// contribution is the amount that one pod adds to a tally.
type contribution struct {
	tally int
	value int32
}

// relater is a rule that counts pods in tallies.
type relater interface {
	// relate adds what a pod of a kind counts for.
	relate(w *wide, cols *columns.Columns, k *state.Kind)
	// restate evaluates a node's object again.
	restate(w *wide, slot int, n *state.NodeInfo)
}

// judge is a hard rule computed from tallies.
type judge interface {
	relater
	// prepare must be called before passes, after any change.
	prepare(w *wide, cols *columns.Columns)
	// passes reports whether nodes with these values of the columns pass, and if not, for which reason.
	passes(w *wide, values []int64) (ok bool, why uint8)
}

// ranker is a soft rule computed from tallies.
type ranker interface {
	relater
	// rate adds weighted scores to the sums of the listed groups.
	rate(w *wide, g *groups, list *groupList)
}

// newTally adds a tally and returns its number.
func (w *wide) newTally(t *columns.Tally) int {
	w.tallies = append(w.tallies, t)
	return len(w.tallies) - 1
}

// newColumn adds a column and returns its index.
func (w *wide) newColumn(c columns.Column) int {
	w.columns = append(w.columns, c)
	return len(w.columns) - 1
}

// meet checks new kinds.
func (w *wide) meet(cols *columns.Columns) {
	if w.active {
		return
	}
	for ; w.met < len(cols.Kinds.List); w.met++ {
		if k := cols.Kinds.List[w.met].Kind; k.Terms != nil && len(w.relationOf(cols, int32(w.met))) > 0 {
			w.active = true
			return
		}
	}
}

// fits reports whether all columns still have the right kind.
func (w *wide) fits() bool {
	for i := range w.columns {
		if !w.columns[i].Fits() {
			return false
		}
	}
	return true
}

// relationOf returns what one pod of a kind counts for.
func (w *wide) relationOf(cols *columns.Columns, kind int32) []contribution {
	if lack := len(cols.Kinds.List) - len(w.byKind); lack > 0 {
		w.byKind = columns.GrowBy(w.byKind, lack, 0)
	}
	switch known := w.byKind[kind]; known {
	case 0:
		return w.relate(cols, kind)
	case 1:
		return nil
	default:
		return w.relations[known-2]
	}
}

// counts reports whether pods of a kind count for anything.
func (w *wide) counts(cols *columns.Columns, kind int32) bool {
	return w.active && kind != columns.NoKind && len(w.relationOf(cols, kind)) > 0
}

func (w *wide) relate(cols *columns.Columns, kind int32) []contribution {
	w.scratch = w.scratch[:0]
	k, known := cols.Kinds.List[kind].Kind, len(w.tallies)
	for _, j := range w.judges {
		j.relate(w, cols, k)
	}
	for _, r := range w.rankers {
		r.relate(w, cols, k)
	}
	if len(w.scratch) == 0 {
		w.byKind[kind] = 1
		return nil
	}
	relation := append([]contribution(nil), w.scratch...)
	w.relations = append(w.relations, relation)
	w.byKind[kind] = int32(len(w.relations)) + 1
	for _, t := range w.tallies[known:] {
		t.Fill(cols)
	}
	return relation
}

// adds records a contribution of the kind being related.
func (w *wide) adds(tally int, value int32) {
	for i := range w.scratch {
		if w.scratch[i].tally == tally {
			w.scratch[i].value += value
			return
		}
	}
	w.scratch = append(w.scratch, contribution{tally, value})
}

// bump counts pods of one kind that were added or removed.
func (w *wide) bump(cols *columns.Columns, m *columns.Move) {
	for _, by := range w.relationOf(cols, m.Kind) {
		w.tallies[by.tally].Bump(int(m.Slot), by.value*m.By)
	}
}

// restate evaluates a node's object again and counts its pods from scratch.
func (w *wide) restate(cols *columns.Columns, slot int) {
	n := cols.Infos[slot]
	if n != nil {
		for _, j := range w.judges {
			j.restate(w, slot, n)
		}
		for _, r := range w.rankers {
			r.restate(w, slot, n)
		}
	}
	clear(w.sums)
	for _, k := range cols.Kinds.Of[slot] {
		for _, by := range w.relationOf(cols, k.Kind) {
			if lack := by.tally + 1 - len(w.sums); lack > 0 {
				w.sums = columns.GrowBy(w.sums, lack, 0)
			}
			w.sums[by.tally] += by.value * k.Pods
		}
	}
	for i, t := range w.tallies {
		var per int32
		if i < len(w.sums) {
			per = w.sums[i]
		}
		t.Set(slot, n != nil, per)
	}
}

// prepare prepares the judges for passes.
func (w *wide) prepare(cols *columns.Columns) {
	if !w.active {
		return
	}
	for _, j := range w.judges {
		j.prepare(w, cols)
	}
}

// passes reports whether nodes with these values of the columns pass.
func (w *wide) passes(values []int64) bool {
	if !w.active {
		return true
	}
	for _, j := range w.judges {
		if ok, _ := j.passes(w, values); !ok {
			return false
		}
	}
	return true
}

func (w *wide) bytes() int64 {
	size := int64(4 * len(w.byKind))
	for _, t := range w.tallies {
		size += t.Bytes()
	}
	return size
}
