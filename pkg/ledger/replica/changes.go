package replica

import (
	"maps"
	"slices"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
)

// Changes describes what one call changed in a View.
type Changes struct {
	// Reset: everything may have changed. Apart from it, only Generation is filled in.
	Reset bool
	// Docs are the changes of documents, in the order of the ledger.
	Docs []DocChange
	// PodUIDs are the pods whose reservations appeared, changed or disappeared, sorted.
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
type DocChange struct{ Before, After ledger.NodeDoc }

// changeSet gathers Changes while a batch is applied; a pod or partition may be added more than once. The zero value is
// ready for use: most batches change one kind of thing, so maps are made when something is added to them.
type changeSet struct {
	docs              []DocChange
	pods              map[string]struct{}
	partitions        map[int32]struct{}
	members, registry bool
	terms             map[registry.TermID]struct{}
	// The names, in the order of the ledger, some more than once.
	budgets, exclusives, plans, names []string
	floor, generation                 bool
}

func (s *changeSet) pod(uid string) {
	if s.pods == nil {
		s.pods = map[string]struct{}{}
	}
	s.pods[uid] = struct{}{}
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
		PodUIDs:    slices.Sorted(maps.Keys(s.pods)),
		Partitions: slices.Sorted(maps.Keys(s.partitions)),
		Members:    s.members,
		Registry:   s.registry,
		Terms:      slices.Sorted(maps.Keys(s.terms)),
		Budgets:    slices.Compact(slices.Sorted(slices.Values(s.budgets))),
		Exclusives: slices.Compact(slices.Sorted(slices.Values(s.exclusives))),
		Plans:      slices.Compact(slices.Sorted(slices.Values(s.plans))),
		Names:      slices.Compact(slices.Sorted(slices.Values(s.names))),
		Floor:      s.floor,
		Generation: s.generation,
	}
}
