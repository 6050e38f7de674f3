package engine

import (
	"github.com/berth-scheduler/berth/pkg/placement"
	"github.com/berth-scheduler/berth/pkg/placement/engine/internal/columns"
	"github.com/berth-scheduler/berth/pkg/state"
)

// crossNodeKey holds the properties that the pods of classes sharing a crossNodeState have in common. shape is
// the prefix of the signature that rules about other pods read (see signature.Signature.Of): classes that differ
// only in the requests or images of their pods share one.
type crossNodeKey struct {
	profile *placement.Profile
	kind    *state.PodClass
	shape   string
}

// crossNodeState is the state that the rules about other pods keep for the classes whose pods are the same for
// those rules: spread constraints and terms of inter-pod affinity.
//
// A pod on a node counts only by its kind (namespace, labels, terms). So whether a rule counts a kind, and by how
// much and in which tally, is computed once (relationOf), and what a node contributes to a tally is a sum over
// the kinds on it. Example: of a term "near app=db by zone", the relation of the kind of all pods with app=db is
// {tally 0, +1}. When such a pod starts on a node, applyChange adds 1 to tally 0 in the zone of that node,
// without looking at another pod or node.
type crossNodeState struct {
	key crossNodeKey
	// users is the number of classes that refer to it. Without users it is dropped.
	users int // number of classes
	basis crossNodeBasis
	// seen is the journal time up to which everything below is valid.
	seen uint64
	crossNodeRules
	// byKind maps every kind of the engine to what one pod of it counts for: 0 means unknown yet, 1 nothing,
	// otherwise an index into relations, plus 2.
	byKind    []int32
	relations [][]contribution
	// kindsChecked is how many kinds of the engine have been checked for whether they activate it.
	kindsChecked int
	// sums is scratch: what the pods of one node count for, per tally.
	sums    []int32
	scratch []contribution
	// counted is its size in bytes as counted by the cache.
	counted int64
}

// crossNodeBasis holds the inputs of a crossNodeState in addition to the pod: versions, and the contents of
// objects (see signature.Objects).
type crossNodeBasis struct {
	objects, epoch uint64
	digest         string
}

// crossNodeRules holds the rules with their tallies. A tally belongs to one constraint or term of one rule, or to
// one topology key of the terms of other pods.
type crossNodeRules struct {
	// active reports that there is something to keep. A class whose own pods have no such rules becomes active with
	// the first kind of pod whose terms concern them.
	active bool
	// filters are in the order of plan.crossNode, and scorers in the order of the profile.
	filters []tallyFilter
	scorers []tallyScorer
	tallies []*columns.Tally
	// columns are the parts of the tallies that groups keep.
	columns []columns.Column
}

// catchUp counts what changed since the state was last used. It is called by every class that shares the state;
// the second of them finds nothing to do. A state that is new, or too far behind, counts all nodes that changed
// from scratch.
func (w *crossNodeState) catchUp(cols *columns.Columns) {
	w.checkNewKinds(cols)
	if !w.active || w.seen == cols.Journal.Now {
		return
	}
	for _, t := range w.tallies {
		t.Grow(cols.Len())
	}
	if w.seen == 0 || cols.Journal.IsTooFar(w.seen) {
		for slot, at := range cols.Journal.ChangedAt {
			if at > w.seen {
				w.recount(cols, slot)
			}
		}
	} else {
		w.followJournal(cols)
	}
	w.seen = cols.Journal.Now
}

// followJournal processes the changes one by one. A node whose object changed is counted as it is now, which
// includes its other changes: those before the change of the object and those after it are skipped.
func (w *crossNodeState) followJournal(cols *columns.Columns) {
	for at := w.seen + 1; at <= cols.Journal.Now; at++ {
		m := &cols.Journal.Recent[at%columns.JournalSize]
		slot := int(m.Slot)
		switch objectChanged := cols.Journal.ObjectChangedAt[slot]; {
		case objectChanged == at:
			w.recount(cols, slot)
		case objectChanged <= w.seen && m.Kind != columns.NoKind:
			w.applyChange(cols, m)
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
	// relate calls w.contribute for what one pod of a kind counts for.
	relate(w *crossNodeState, cols *columns.Columns, k *state.PodClass)
	// restate evaluates a node's object again: whether the rule counts its pods at all.
	restate(w *crossNodeState, slot int, n *state.NodeInfo)
}

// tallyFilter is a hard rule computed from tallies.
type tallyFilter interface {
	relater
	// prepare must be called before passes, after any change. It computes what is the same for all nodes, such as
	// the smallest number of pods in a domain.
	prepare(w *crossNodeState, cols *columns.Columns)
	// passes reports whether nodes with these values of the columns pass, and if not, for which reason. It is
	// called once per group and decision: it must neither allocate nor look at nodes.
	passes(w *crossNodeState, values []int64) (ok bool, why uint8)
}

// tallyScorer is a soft rule computed from tallies.
type tallyScorer interface {
	relater
	// rate adds weighted scores to the sums of the listed groups.
	rate(w *crossNodeState, g *groups, list *groupList)
}

// newTally adds a tally and returns its number.
func (w *crossNodeState) newTally(t *columns.Tally) int {
	w.tallies = append(w.tallies, t)
	return len(w.tallies) - 1
}

// newColumn adds a column and returns its index.
func (w *crossNodeState) newColumn(c columns.Column) int {
	w.columns = append(w.columns, c)
	return len(w.columns) - 1
}

// checkNewKinds activates the state with the first kind of pod whose terms concern the pods of its classes. Most
// clusters have no such pods, and a class without rules of its own about other pods then costs nothing here.
func (w *crossNodeState) checkNewKinds(cols *columns.Columns) {
	if w.active {
		return
	}
	for ; w.kindsChecked < len(cols.Kinds.List); w.kindsChecked++ {
		if k := cols.Kinds.List[w.kindsChecked].Kind; k.Terms != nil && len(w.relationOf(cols, int32(w.kindsChecked))) > 0 {
			w.active = true
			return
		}
	}
}

// columnsFit reports whether all columns still have the right form; see columns.Column.Fits.
func (w *crossNodeState) columnsFit() bool {
	for i := range w.columns {
		if !w.columns[i].Fits() {
			return false
		}
	}
	return true
}

// relationOf returns what one pod of a kind counts for; nil for nothing. It is computed at the first call.
func (w *crossNodeState) relationOf(cols *columns.Columns, kind int32) []contribution {
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
func (w *crossNodeState) counts(cols *columns.Columns, kind int32) bool {
	return w.active && kind != columns.NoKind && len(w.relationOf(cols, kind)) > 0
}

// relate computes what one pod of a kind counts for. A term may use a topology key that had no tally before. Its
// tally starts with all nodes and without pods, because no kind that has been related before adds to it.
func (w *crossNodeState) relate(cols *columns.Columns, kind int32) []contribution {
	w.scratch = w.scratch[:0]
	k, known := cols.Kinds.List[kind].Kind, len(w.tallies)
	for _, j := range w.filters {
		j.relate(w, cols, k)
	}
	for _, r := range w.scorers {
		r.relate(w, cols, k)
	}
	if len(w.scratch) == 0 {
		w.byKind[kind] = 1
		return nil
	}
	relation := append([]contribution(nil), w.scratch...)
	w.relations = append(w.relations, relation)
	w.byKind[kind] = int32(len(w.relations)) + 1
	// Tallies that this kind has added do not know the nodes yet.
	for _, t := range w.tallies[known:] {
		t.Fill(cols)
	}
	return relation
}

// contribute records a contribution of the kind being related. Several terms may add to one tally.
func (w *crossNodeState) contribute(tally int, value int32) {
	for i := range w.scratch {
		if w.scratch[i].tally == tally {
			w.scratch[i].value += value
			return
		}
	}
	w.scratch = append(w.scratch, contribution{tally, value})
}

// applyChange counts pods of one kind that were added or removed.
func (w *crossNodeState) applyChange(cols *columns.Columns, m *columns.Change) {
	for _, by := range w.relationOf(cols, m.Kind) {
		w.tallies[by.tally].Add(int(m.Slot), by.value*m.By)
	}
}

// recount evaluates a node's object again and counts its pods from scratch. A removed node contributes nothing.
func (w *crossNodeState) recount(cols *columns.Columns, slot int) {
	n := cols.Infos[slot]
	if n != nil {
		for _, j := range w.filters {
			j.restate(w, slot, n)
		}
		for _, r := range w.scorers {
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
	// A tally to which no pod on the node contributes still gets the node: its domain exists.
	for i, t := range w.tallies {
		var per int32
		if i < len(w.sums) {
			per = w.sums[i]
		}
		t.Set(slot, n != nil, per)
	}
}

// prepare prepares the filters for passes. It is called once per decision.
func (w *crossNodeState) prepare(cols *columns.Columns) {
	if !w.active {
		return
	}
	for _, j := range w.filters {
		j.prepare(w, cols)
	}
}

// passes reports whether nodes with these values of the columns pass all hard rules about other pods.
func (w *crossNodeState) passes(values []int64) bool {
	if !w.active {
		return true
	}
	for _, j := range w.filters {
		if ok, _ := j.passes(w, values); !ok {
			return false
		}
	}
	return true
}

// bytes estimates the memory of the state in bytes, without the relations, which are few.
func (w *crossNodeState) bytes() int64 {
	size := int64(4 * len(w.byKind))
	for _, t := range w.tallies {
		size += t.Bytes()
	}
	return size
}
