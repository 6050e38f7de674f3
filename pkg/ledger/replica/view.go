package replica

import (
	"iter"
	"maps"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/identity"
)

// View is one member's copy of the ledger. It is fed by Follow (Fold, in order) and, ahead of the watch, by the
// member's own committed transactions (LearnOwn) and by lost compares (Learn).
//
// The documents of nodes and the ledger's identity are read from the View itself, everything else from its parts:
// Names, Plans, Budgets, Exclusives, Terms, Roster. The parts belong to the View, and show what it shows: a caller may
// retain a pointer to one.
//
// A View belongs to one goroutine. The values it returns are never changed afterwards and must not be changed by
// the reader.
type View struct {
	revision int64
	cluster  string
	// store is the identity of the store that the view shows, 0 while that is not known.
	store      uint64
	generation identity.Generation
	docs       *documents
	names      Names
	plans      Plans
	budgets    Budgets
	exclusives Exclusives
	terms      Terms
	roster     Roster
}

// NewView returns an empty view at revision 0. Until it has been Reset it knows nothing, and nothing can be
// concluded from it.
func NewView() *View {
	v := &View{}
	v.clear()
	return v
}

func (v *View) clear() {
	docs := newDocuments()
	*v = View{
		docs:       docs,
		names:      newNames(docs),
		plans:      newPlans(docs),
		budgets:    newBudgets(docs),
		exclusives: newExclusives(docs),
		terms:      newTerms(),
		roster:     newRoster(),
	}
}

// Clone returns an independent copy for another goroutine. Its cost is proportional to the content of the ledger.
func (v *View) Clone() *View {
	c := *v
	c.docs = v.docs.clone()
	c.names = v.names.clone(c.docs)
	c.plans = v.plans.clone(c.docs)
	c.budgets = v.budgets.clone(c.docs)
	c.exclusives = v.exclusives.clone(c.docs)
	c.terms = v.terms.clone()
	c.roster = v.roster.clone()
	return &c
}

// Names returns the part about the names of nodes.
func (v *View) Names() *Names { return &v.names }

// Plans returns the part about plans and their victims.
func (v *View) Plans() *Plans { return &v.plans }

// Budgets returns the part about disruption budgets.
func (v *View) Budgets() *Budgets { return &v.budgets }

// Exclusives returns the part about volumes and pools of devices.
func (v *View) Exclusives() *Exclusives { return &v.exclusives }

// Terms returns the part about rules that reach beyond one node.
func (v *View) Terms() *Terms { return &v.terms }

// Roster returns the part about members and the partitions they own.
func (v *View) Roster() *Roster { return &v.roster }

// Revision is the ledger revision up to which the view is complete; values added by Learn may be newer. It is 0
// before the first Reset.
func (v *View) Revision() int64 { return v.revision }

// Cluster returns the UID of the Kubernetes cluster this ledger belongs to; empty when unclaimed.
func (v *View) Cluster() string { return v.cluster }

// Generation returns the one that the view shows.
func (v *View) Generation() identity.Generation { return v.generation }

// IsOpen reports whether members may act on the ledger: its generation is open, and was begun in the store that the
// view shows. A ledger without generations, of a version before them, is open.
func (v *View) IsOpen() bool {
	g := v.generation
	return g.Revision == 0 || g.Open && (v.store == 0 || v.store == g.Store)
}

// Permits reports whether a member whose facts are of an epoch may act on the ledger: IsOpen holds, and the queue
// published the facts after the generation began.
func (v *View) Permits(epoch uint64) bool {
	return v.IsOpen() && (v.generation.FactsAfter == 0 || epoch > v.generation.FactsAfter)
}

// Doc returns the document of a node; false when the ledger has none. A node's first document starts from Open.
func (v *View) Doc(nodeUID string) (ledger.NodeDoc, bool) {
	d, ok := v.docs.byNode[nodeUID]
	return d, ok
}

// Docs iterates over all documents, in no order.
func (v *View) Docs() iter.Seq[ledger.NodeDoc] { return v.docs.all() }

// Open returns the document of a node for something to be added to it. A first document starts from the floor, at
// Revision 0, and covers the node's version in the caller's facts. (The floor's high-water of nodes is not used, as
// it is from other nodes: with it this node would pass for a later one than it is, and block its successor.)
func (v *View) Open(nodeUID, nodeName string, nodeRV uint64) ledger.NodeDoc {
	return v.docs.open(nodeUID, nodeName, nodeRV)
}

// Version returns the version of a node's document. A decision that has counted a document may be committed on that
// version of it only.
func (v *View) Version(nodeUID string) ledger.Version {
	if d, ok := v.docs.byNode[nodeUID]; ok {
		return ledger.Version{Revision: d.Revision}
	}
	return ledger.Version{Floor: v.docs.floor.Revision}
}

// Floor returns what stands in for the documents that were collected.
func (v *View) Floor() ledger.Floor { return v.docs.floor }

// Reservations returns all entries that reserve for a pod, with their documents, in no order. A pod has at most
// one, as long as every member keeps to the protocol; a reader that must not rely on that counts them all.
func (v *View) Reservations(podUID string) iter.Seq2[ledger.NodeDoc, ledger.Entry] {
	return v.docs.reservations(podUID)
}

// Entry returns the reservation of a pod and the document that contains it. If several nodes have one, it returns
// the one that binds the pod soonest (Committed, Fencing, Held; then the lower node UID), so that every member gets
// the same one.
func (v *View) Entry(podUID string) (ledger.NodeDoc, ledger.Entry, bool) {
	var doc ledger.NodeDoc
	var entry ledger.Entry
	found := false
	for d, e := range v.docs.reservations(podUID) {
		if !found || before(d, e, doc, entry) {
			doc = d
			entry = e
			found = true
		}
	}
	return doc, entry, found
}

// Reserved iterates over the UIDs of all pods with a reservation, in no order.
func (v *View) Reserved() iter.Seq[string] { return maps.Keys(v.docs.reserved) }

// HighWater returns the highest high-water of a kind among all documents that exist or existed. A member whose
// progress has reached it is up to date for every node.
func (v *View) HighWater(kind string) uint64 { return v.docs.highest[kind] }

// Reached returns the highest resourceVersion of a kind that Kubernetes must have had, according to all documents
// that exist or existed: the HighWater, and the versions that entries were decided on. A Kubernetes that has not
// come that far was restored from a backup. Unlike a high-water, a member need not have applied it to use a
// document.
func (v *View) Reached(kind string) uint64 { return max(v.docs.highest[kind], v.docs.reached[kind]) }
