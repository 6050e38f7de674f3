package audit

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/audit/recording"
	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/registry"
	"github.com/berth-scheduler/berth/pkg/ledger/roster"
)

const (
	// planRecorded is the prefix of the IDs of plans that have a record; planSole is that of plans that are one
	// eviction, which needs no place.
	planRecorded = "large-"
	planSole     = "evict-"
	// planPrepared is the prefix of plans for which no pod is evicted: plugins have to act before the bind.
	planPrepared = "prepare-"
	// preempting follows the scheduler's name in the condition of a pod that it preempts.
	preempting = ": preempting to accommodate"
)

// ledgerState is the content of the ledger at one revision, as far as rules read it. apply changes it, event by event;
// everything else reads it.
type ledgerState struct {
	// docs holds the documents of nodes, by node UID; owners the owner of each partition; terms the registered terms
	// of rules beyond one node.
	docs   map[string]ledger.NodeDoc
	owners map[int32]owner
	terms  map[registry.TermID]bool // false: retiring
	// records holds the records of plans, by ID; budgets holds the documents of disruption budgets, by UID.
	records map[string]ledger.PlanRecord
	budgets map[string]ledger.BudgetDoc
	// stubs holds the documents that may be collected, by key; floor holds the high-water marks of those that were.
	stubs map[string]stub
	floor map[string]uint64
	// jumped reports that revisions of the ledger were missed at some time before. Then the absence of a reservation
	// proves nothing.
	jumped bool
	found  *findings
}

// owner is the shard that owns a partition. epoch is the create revision of its key, which its transactions compare.
type owner struct {
	member string
	epoch  int64
}

// newLedgerState returns an empty ledger.
func newLedgerState(found *findings) *ledgerState {
	s := &ledgerState{found: found}
	s.clear()
	return s
}

// clear empties the state before a list of the ledger is applied to it.
func (s *ledgerState) clear() {
	s.docs, s.owners = map[string]ledger.NodeDoc{}, map[int32]owner{}
	s.terms = map[registry.TermID]bool{}
	s.records, s.budgets = map[string]ledger.PlanRecord{}, map[string]ledger.BudgetDoc{}
	s.stubs, s.floor = map[string]stub{}, nil
}

// apply applies one change of one key, without checks. Keys of other kinds (members, elections, pauses) are ignored. A
// value that cannot be decoded is reported; a node's document then keeps its previous value, and a plan or a budget
// counts as empty (applyPlan).
func (s *ledgerState) apply(ev recording.LedgerEvent) {
	s.applyStub(ev)
	switch {
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		uid := strings.TrimPrefix(ev.Key, ledger.PrefixNode)
		if ev.Deleted {
			delete(s.docs, uid)
			return
		}
		doc, err := codec.DecodeNodeDoc(ev.KV())
		if err != nil {
			s.found.undecodable(ev, err)
			return
		}
		s.docs[uid] = doc
	case strings.HasPrefix(ev.Key, roster.PrefixOwn):
		s.applyOwner(ev)
	case strings.HasPrefix(ev.Key, registry.PrefixTerm) && ev.Key != registry.KeyTermRegistry:
		id := registry.TermID(strings.TrimPrefix(ev.Key, registry.PrefixTerm))
		if ev.Deleted {
			delete(s.terms, id)
			return
		}
		_, term, err := registry.DecodeTerm(ev.KV())
		if err != nil {
			s.found.undecodable(ev, err)
			return
		}
		s.terms[id] = !term.Retiring
	default:
		s.applyPlan(ev)
	}
}

// applyOwner applies one change of a partition's owner.
func (s *ledgerState) applyOwner(ev recording.LedgerEvent) {
	partition, ok := roster.ParseOwn(ev.Key)
	if !ok || ev.Deleted {
		delete(s.owners, partition)
		return
	}
	o, err := roster.DecodeOwner(ev.Value)
	if err != nil {
		s.found.undecodable(ev, err)
		return
	}
	s.owners[partition] = owner{member: o.Member, epoch: ev.Create}
}

// applyPlan applies one change of a plan's record or a budget's document, without checks. Unlike a node's document,
// one that cannot be decoded is empty from then on.
func (s *ledgerState) applyPlan(ev recording.LedgerEvent) {
	var err error
	if uid, ok := strings.CutPrefix(ev.Key, ledger.PrefixBudget); ok {
		delete(s.budgets, uid)
		if !ev.Deleted {
			s.budgets[uid], err = codec.DecodeBudget(ev.KV())
		}
	}
	if id, ok := strings.CutPrefix(ev.Key, ledger.PrefixPlan); ok {
		delete(s.records, id)
		if !ev.Deleted {
			s.records[id], err = codec.DecodePlan(ev.KV())
		}
	}
	if err != nil {
		s.found.undecodable(ev, err)
	}
}

// applyStub records the high-water marks and promises of a key that may be collected, and the floor.
func (s *ledgerState) applyStub(ev recording.LedgerEvent) {
	if ev.Key == ledger.KeyFloor {
		f, err := codec.DecodeFloor(ev.KV())
		if err != nil {
			s.found.undecodable(ev, err)
			return
		}
		s.floor = f.HW
		return
	}
	delete(s.stubs, ev.Key)
	if rest, ok := stubOf(ev); ok && !ev.Deleted {
		s.stubs[ev.Key] = rest
	}
}

// hadPlace reports whether a place was held or kept for a plan before this revision. before holds the previous state
// of the documents that the revision changed. It looks at every document; evictions are rare.
func (s *ledgerState) hadPlace(plan string, before map[string]ledger.NodeDoc) bool {
	for uid, d := range s.docs {
		if old, changed := before[uid]; changed {
			d = old
		}
		if holdsPlace(d, plan) {
			return true
		}
	}
	return false
}

// claimedBy reports whether a plan claims a pod as its victim, on any node.
func (s *ledgerState) claimedBy(podUID, plan string) bool {
	for _, d := range s.docs {
		if claimsVictim(d, podUID, plan) {
			return true
		}
	}
	return false
}

// heldBy counts the holders whose reservation is in the ledger. The document of a shared volume or pool may list
// holders whose reservation has left; those promise nothing.
func (s *ledgerState) heldBy(holders []ledger.Holder) (n int) {
	for _, h := range holders {
		for _, e := range s.docs[h.NodeUID].Entries {
			if e.PodUID == h.PodUID && e.Token == h.Token {
				n++
			}
		}
	}
	return n
}

// stub is the remainder of the document of a node, a disruption budget, a volume or a pool when it is deleted: its
// high-water marks, and the number of promises that it still had. holders are those of a volume or a pool; each
// counts for as long as the ledger has its reservation.
type stub struct {
	node     string
	hw       map[string]uint64
	promises int
	holders  []ledger.Holder
}

// stubOf decodes the value of a key. It returns false for a key of another kind, and for a value that cannot be
// decoded, which is reported elsewhere.
func stubOf(ev recording.LedgerEvent) (stub, bool) {
	switch {
	case strings.HasPrefix(ev.Key, ledger.PrefixNode):
		d, err := codec.DecodeNodeDoc(ev.KV())
		return stub{node: d.NodeName, hw: d.HW, promises: len(d.Entries)}, err == nil
	case strings.HasPrefix(ev.Key, ledger.PrefixBudget):
		b, err := codec.DecodeBudget(ev.KV())
		return stub{hw: b.HW, promises: len(b.Claims)}, err == nil
	case strings.HasPrefix(ev.Key, ledger.PrefixVolume), strings.HasPrefix(ev.Key, ledger.PrefixPool):
		x, err := codec.DecodeExclusive(ev.KV())
		return stub{hw: x.HW, holders: x.Holders}, err == nil
	}
	return stub{}, false
}

// sortedDocs returns documents by node UID, so that findings come in the same order in every run.
func sortedDocs(docs map[string]ledger.NodeDoc) []ledger.NodeDoc {
	out := make([]ledger.NodeDoc, 0, len(docs))
	for _, d := range docs {
		out = append(out, d)
	}
	slices.SortFunc(out, func(a, b ledger.NodeDoc) int { return cmp.Compare(a.NodeUID, b.NodeUID) })
	return out
}

// reservations returns the entries of a document that are reservations, held ones included, in its order.
func reservations(d ledger.NodeDoc) []ledger.Entry {
	var out []ledger.Entry
	for _, e := range d.Entries {
		if e.Role == ledger.RoleReservation {
			out = append(out, e)
		}
	}
	return out
}

// victimOf returns the claim on a pod in a document, whichever plan made it; false if there is none.
func victimOf(d ledger.NodeDoc, podUID string) (ledger.Entry, bool) {
	i := slices.IndexFunc(d.Entries, func(e ledger.Entry) bool {
		return e.Role == ledger.RoleVictim && e.PodUID == podUID
	})
	if i < 0 {
		return ledger.Entry{}, false
	}
	return d.Entries[i], true
}

// claimsVictim reports whether a document claims a pod for this plan.
func claimsVictim(d ledger.NodeDoc, podUID, plan string) bool {
	e, ok := victimOf(d, podUID)
	return ok && e.Plan == plan
}

// holdsPlace reports whether a document has a place for a plan: a hold, or the placeholder of a move.
func holdsPlace(d ledger.NodeDoc, plan string) bool {
	return slices.ContainsFunc(d.Entries, func(e ledger.Entry) bool {
		place := e.Role == ledger.RoleMove || e.Role == ledger.RoleReservation && e.State == ledger.Held
		return place && e.Plan == plan
	})
}

// forOthers reports whether a place is held until other pods have been evicted.
func forOthers(e ledger.Entry) bool {
	return e.State == ledger.Held && e.Plan != "" && !strings.HasPrefix(e.Plan, planPrepared)
}
