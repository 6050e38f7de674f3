package txns

import (
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Outcome explains why a batch failed, from the values that came back with the failure.
type Outcome struct {
	// Applied: it did not fail at all. An earlier copy of the identical transaction, whose answer was lost, has
	// applied: the documents show its tokens.
	Applied bool
	// AppliedAt is, if Applied, a revision at or past the one it applied at, and one at which a document of the
	// batch changed, so that a watcher of the ledger reaches it.
	AppliedAt int64
	// Partitions are those that this shard does not own any more (in this epoch), sorted.
	Partitions []int32
	// Registry: t/reg moved, to RegistryRevision. No placement of the batch may be kept before the shard knows the
	// new terms.
	Registry         bool
	RegistryRevision int64
	// Docs are the documents that changed under the batch, as they are now. One at Revision 0 does not exist and
	// may not be created on the basis of what was known: the floor has moved, or another node has the node's name.
	Docs []ledger.NodeDoc
	// NamesAt is the newest revision of an incarnation, or of the floor, that the batch lost to; 0 if there is
	// none. A watch that has reached it shows which nodes the names stand for, and which documents have been
	// collected.
	NamesAt int64
	// Guards are the compared guards that moved, and the revisions they moved to (0: the guard was dropped). A
	// placement that lost one is decided again once the shard's watch of the ledger has got there: the revision
	// alone does not show the placements it stands for.
	Guards map[string]int64
	// Budgets, Exclusives and Plans are the documents of these kinds that changed, as they
	// are now.
	Budgets    []ledger.BudgetDoc
	Exclusives []ledger.ExclusiveDoc
	Plans      []ledger.PlanRecord
}

// Classify classifies the failure of b from the current values in r. If r succeeded, b is Applied.
func Classify(b PlaceBatch, r ledger.TxnResult) (Outcome, error) {
	if r.Succeeded {
		return Outcome{Applied: true, AppliedAt: r.Revision}, nil
	}
	lost := Outcome{}
	lost.mandate(b.mandate(), r)
	for _, n := range b.Needs {
		lost.guards(n.Guards, r)
	}
	lost.names(b.Docs, nil, r)
	for _, x := range b.Exclusives {
		lost.absence(x, r)
	}
	var err error
	if lost.Docs, err = Refreshed(b.Docs, r); err != nil {
		return Outcome{}, err
	}
	if lost.Exclusives, err = refreshed(b.Exclusives, codec.DecodeExclusive, r); err != nil {
		return Outcome{}, err
	}
	placed := b.placed()
	for _, d := range lost.Docs {
		for _, e := range d.Entries {
			if _, ok := placed[e.Token]; ok {
				lost.Applied, lost.AppliedAt = true, max(lost.AppliedAt, d.Revision)
			}
		}
	}
	return lost, nil
}

// names records the incarnations and the floor that first documents, and admissions, have lost to.
func (l *Outcome) names(docs []ledger.NodeDoc, admitted []ledger.Incarnation, r ledger.TxnResult) {
	note := func(key string, revision int64) {
		if now := r.ValueOf(key).ModRevision; now != revision {
			l.NamesAt = max(l.NamesAt, now)
		}
	}
	for _, i := range admitted {
		note(i.DocKey(), i.Revision)
	}
	for _, d := range docs {
		admits := slices.ContainsFunc(admitted, func(i ledger.Incarnation) bool { return i.NodeUID == d.NodeUID })
		if d.Revision == 0 && !admits {
			note(ledger.KeyIncarnation(d.NodeName), 0)
		}
		if d.Revision == 0 || admits {
			note(ledger.KeyFloor, d.Floor)
		}
	}
}

// absence records whether the floor has moved under a document that does not exist.
func (l *Outcome) absence(d floored, r ledger.TxnResult) {
	if now := r.ValueOf(ledger.KeyFloor).ModRevision; d.ReadAt() == 0 && now != d.ReadUnder() {
		l.NamesAt = max(l.NamesAt, now)
	}
}

func (l *Outcome) guards(uses []registry.GuardUse, r ledger.TxnResult) {
	for _, u := range uses {
		now := r.ValueOf(u.Key).ModRevision
		if !u.Compare || now == u.Revision {
			continue
		}
		if l.Guards == nil {
			l.Guards = map[string]int64{}
		}
		l.Guards[u.Key] = now
	}
}

// Moved reports whether any of these guards has been lost, and the newest revision that one has moved to.
func (l Outcome) Moved(uses []registry.GuardUse) (revision int64, moved bool) {
	for _, u := range uses {
		if now, lost := l.Guards[u.Key]; lost {
			revision, moved = max(revision, now), true
		}
	}
	return revision, moved
}

// Kept reports whether a placement with these needs has lost none of them. The caller must check that its own
// document is unchanged, that its partition is still owned, and that nothing it holds has changed
// (Outcome.Exclusives).
func (l Outcome) Kept(n Needs) bool {
	_, moved := l.Moved(n.Guards)
	return !moved && !slices.ContainsFunc(l.Docs, func(d ledger.NodeDoc) bool {
		return slices.Contains(n.Pins,
			d.NodeUID)
	})
}

// Winners returns the part of b that lost nothing and can be resubmitted at once; false when nothing is left. It
// leaves out the documents that changed, and every document that places a pod that lost its partition, a guard or a
// pin, or that pins for such a pod. If anything is left out, so are the placements that counted it
// (Needs.CountsBatch). If the registry moved, nothing is left: those placements were decided without knowledge of a
// term.
func Winners(b PlaceBatch, lost Outcome) (PlaceBatch, bool) {
	if lost.Applied || lost.Registry {
		return PlaceBatch{}, false
	}
	out := map[string]bool{}
	for _, d := range lost.Docs {
		out[d.NodeUID] = true
	}
	for _, x := range lost.Exclusives {
		out[x.Key] = true
	}
	// Leaving out a document also leaves out its placements and their pins, and so on.
	for before := -1; before != len(out); {
		before = len(out)
		for _, d := range b.Docs {
			b.leaveOut(d, lost, out)
		}
	}
	won := b.without(out)
	return won, len(won.Placed) > 0
}

// leaveOut adds to out the documents and keys that the losers in a document affect.
func (b PlaceBatch) leaveOut(d ledger.NodeDoc, lost Outcome, out map[string]bool) {
	for _, e := range d.Entries {
		if !b.loses(e, d.NodeUID, lost, out) {
			continue
		}
		out[d.NodeUID] = true
		for _, uid := range b.Needs[e.Token].Pins {
			out[uid] = true
		}
		for _, key := range holdsFor(b.Exclusives, e.Token) {
			out[key] = true
		}
	}
}

// loses reports whether a placement of the batch cannot be kept when the documents in out are left out.
func (b PlaceBatch) loses(e ledger.Entry, nodeUID string, lost Outcome, out map[string]bool) bool {
	if e.Role != ledger.RoleReservation || !slices.Contains(b.Placed, e.Token) {
		return false
	}
	n := b.Needs[e.Token]
	return out[nodeUID] || !lost.Kept(n) || slices.Contains(lost.Partitions, e.Partition()) ||
		slices.ContainsFunc(n.Pins, func(uid string) bool { return out[uid] }) ||
		slices.ContainsFunc(holdsFor(b.Exclusives, e.Token), func(key string) bool { return out[key] }) ||
		n.CountsBatch && len(out)+len(lost.Partitions) > 0
}

// without returns the part of b that does not touch some documents: their placed tokens, and the epochs and needs
// of those.
func (b PlaceBatch) without(out map[string]bool) PlaceBatch {
	part := PlaceBatch{
		Epochs: map[int32]int64{}, TermRegistryRevision: b.TermRegistryRevision, Needs: map[ledger.Token]Needs{},
	}
	for _, d := range b.Docs {
		if !out[d.NodeUID] {
			part.Docs = append(part.Docs, d)
		}
	}
	for _, x := range b.Exclusives {
		if !out[x.Key] {
			part.Exclusives = append(part.Exclusives, x)
		}
	}
	part.Placed = b.Placed
	var placed []ledger.Token
	for _, e := range part.entries() {
		placed = append(placed, e.Token)
		if epoch, ok := b.Epochs[e.Partition()]; ok {
			part.Epochs[e.Partition()] = epoch
		}
		if n, ok := b.Needs[e.Token]; ok {
			part.Needs[e.Token] = n
		}
	}
	part.Placed = placed
	return part
}
