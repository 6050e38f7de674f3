package replica

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Changes describes what one call changed in a View.
type Changes struct {
	// Reset: everything may have changed. Apart from it, only Generation is filled in.
	Reset bool
	// Docs are the changes of documents, in the order of the ledger.
	Docs []DocChange
	// PodUIDs are the pods whose reservations appeared, changed or disappeared, sorted. A reservation that stayed as it
	// was while its document was written again is none of them.
	PodUIDs []string
	// Partitions are those that changed their owner, their epoch or the member they are wanted for, sorted.
	Partitions []int32
	// Members: a member appeared, disappeared or changed its record.
	Members bool
	// Names are the node names that stand for another node now, sorted. Floor: the floor was raised.
	Names []string
	Floor bool
	// Generation: it differs from the view's previous one, or was opened or closed. A first listing never sets it.
	Generation bool
	// Registry: t/reg moved. Terms are those that appeared, changed or disappeared, sorted.
	Registry bool
	Terms    []registry.TermID
	// Budgets are the UIDs of disruption budgets, Exclusives the keys of volumes and pools, and Plans the ids of
	// plans whose documents appeared, changed or disappeared, sorted.
	Budgets, Exclusives, Plans []string
}

// DocChange is one change of one document. A zero Before means that the document is new, a zero After that it was
// deleted (the node is long gone).
type DocChange struct {
	Before, After ledger.NodeDoc
	// Removed are the entries of Before that After does not have in the same form, Added those of After that Before does
	// not have, each in the order of its document. An entry that changed is in both. Most documents are written because
	// of one entry, so a reader that looks at these alone does not depend on how many a document has.
	Removed, Added []*ledger.Entry
}

// FirstSeen returns the change that shows a document to a reader that knows none of its entries.
func FirstSeen(d ledger.NodeDoc) DocChange { return DocChange{After: d, Added: pointersTo(d.Entries)} }

// revised is a change of a document, with the stored form of what it became.
type revised struct {
	change DocChange
	value  []byte
}

// newRevised returns the change from one revision of a document to the next one. Under another node name, every entry
// is another one.
func newRevised(before ledger.NodeDoc, after ledger.StoredDoc, d codec.Difference) revised {
	r := revised{change: DocChange{Before: before, After: after.Doc}, value: after.Value}
	c := &r.change
	if before.NodeName != c.After.NodeName {
		c.Removed, c.Added = pointersTo(before.Entries), pointersTo(c.After.Entries)
		return r
	}
	if n := len(d.Removed) + len(d.Added); n > 0 {
		all := make([]*ledger.Entry, 0, n)
		for _, i := range d.Removed {
			all = append(all, &before.Entries[i])
		}
		for _, i := range d.Added {
			all = append(all, &c.After.Entries[i])
		}
		removed := len(d.Removed)
		c.Removed, c.Added = all[:removed:removed], all[removed:]
	}
	return r
}

// pointersTo returns a pointer to each entry of a document.
func pointersTo(entries []ledger.Entry) []*ledger.Entry {
	if len(entries) == 0 {
		return nil
	}
	out := make([]*ledger.Entry, len(entries))
	for i := range entries {
		out[i] = &entries[i]
	}
	return out
}

// changeSet gathers Changes while a batch is applied; a pod or partition may be added more than once. The zero value is
// ready for use: most batches change one kind of thing, so maps are made when something is added to them.
type changeSet struct {
	docs []DocChange
	// pods are those whose reservations changed, some more than once.
	pods              []string
	partitions        map[int32]struct{}
	members, registry bool
	terms             map[registry.TermID]struct{}
	// The names, in the order of the ledger, some more than once.
	budgets, exclusives, plans, names []string
	floor, generation                 bool
}

func (s *changeSet) partition(p int32) {
	if s.partitions == nil {
		s.partitions = map[int32]struct{}{}
	}
	s.partitions[p] = struct{}{}
}

func (s *changeSet) term(id registry.TermID) {
	if s.terms == nil {
		s.terms = map[registry.TermID]struct{}{}
	}
	s.terms[id] = struct{}{}
}

// changes returns what was gathered, without duplicates and in an order that is the same for every member.
func (s *changeSet) changes() Changes {
	return Changes{
		Docs:       s.docs,
		PodUIDs:    sortedOnce(s.pods),
		Partitions: sortedKeys(s.partitions),
		Members:    s.members,
		Registry:   s.registry,
		Terms:      sortedKeys(s.terms),
		Budgets:    sortedOnce(s.budgets),
		Exclusives: sortedOnce(s.exclusives),
		Plans:      sortedOnce(s.plans),
		Names:      sortedOnce(s.names),
		Floor:      s.floor,
		Generation: s.generation,
	}
}

// sortedOnce returns a list sorted in place, with each element once. Most lists of a batch are empty.
func sortedOnce(list []string) []string {
	if len(list) == 0 {
		return nil
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// sortedKeys returns the sorted keys of a set, nil for none.
func sortedKeys[K cmp.Ordered](set map[K]struct{}) []K {
	if len(set) == 0 {
		return nil
	}
	return slices.Sorted(maps.Keys(set))
}
