package txns

import (
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
	"github.com/berth-scheduler/berth/pkg/ledger/replica"
)

// Collection is T16 (collect): documents of objects that are gone are deleted.
type Collection struct {
	Floor ledger.Floor
	// Docs have no entries, Budgets no claims, Exclusives no holders (FinishHolders). Apart from that they are as
	// read.
	Docs       []ledger.NodeDoc
	Budgets    []ledger.BudgetDoc
	Exclusives []ledger.ExclusiveDoc
	// Incarnations are those of the names of Docs. Successors are the documents of the nodes that they name, if
	// those are not in Docs. As read.
	Incarnations []ledger.Incarnation
	Successors   []ledger.NodeDoc
}

// Collect builds T16. The floor keeps the documents' high-waters, and so does, for a node name that lives on, the
// document of the node that has the name now. So deleting the document of an object that is not gone after all does
// no harm: its next document starts from the floor, and so does every member's view of a document that does not
// exist.
//
// Compares: floor, every document and incarnation. Puts: floor, the successors. Deletes: the documents, and the
// incarnations that name their nodes. A crash before it changes nothing, after it no step is left to do.
// *RefusedError if a document is not empty.
func (c Collection) Collect() (ledger.Txn, error) {
	hw := maps.Clone(c.Floor.HW)
	var t ledger.Txn
	remove := func(key string, revision int64, entries int, of map[string]uint64) error {
		if entries > 0 || revision == 0 {
			return &RefusedError{Step: "T16 collect", Reason: fmt.Sprintf(
				"document %s at revision %d has %d entries: want one that is stored and has none", key, revision, entries)}
		}
		hw = raisedTo(hw, of)
		t.Compares = append(t.Compares, ledger.Compare{Key: key, Target: ledger.ModRevision, Revision: revision})
		t.Deletes = append(t.Deletes, key)
		return nil
	}
	for _, d := range c.Docs {
		if err := remove(d.DocKey(), d.Revision, len(d.Entries), d.HW); err != nil {
			return ledger.Txn{}, err
		}
	}
	for _, b := range c.Budgets {
		if err := remove(b.DocKey(), b.Revision, len(b.Claims), b.HW); err != nil {
			return ledger.Txn{}, err
		}
	}
	for _, x := range c.Exclusives {
		if err := remove(x.DocKey(), x.Revision, len(x.Holders), x.HW); err != nil {
			return ledger.Txn{}, err
		}
	}
	if err := c.names(&t); err != nil {
		return ledger.Txn{}, err
	}
	floor, err := codec.EncodeFloor(ledger.Floor{HW: hw, Later: c.Floor.Later})
	if err != nil {
		return ledger.Txn{}, err
	}
	t.Compares = append(t.Compares, ledger.Compare{Key: ledger.KeyFloor, Target: ledger.ModRevision,
		Revision: c.Floor.Revision})
	t.Puts = append(t.Puts, ledger.Put{Key: ledger.KeyFloor, Value: floor})
	return t, t.Validate()
}

// names deletes the incarnations that name collected nodes, and passes high-waters on to the nodes that have the
// names of other collected nodes now.
func (c Collection) names(t *ledger.Txn) error {
	for _, i := range c.Incarnations {
		t.Compares = append(t.Compares, ledger.Compare{Key: i.DocKey(), Target: ledger.ModRevision, Revision: i.Revision})
		if slices.ContainsFunc(c.Docs, func(d ledger.NodeDoc) bool { return d.NodeUID == i.NodeUID }) {
			t.Deletes = append(t.Deletes, i.DocKey())
		}
	}
	var heirs []ledger.NodeDoc
	for _, heir := range c.Successors {
		heir = heir.Clone()
		for _, d := range c.Docs {
			if d.NodeName == heir.NodeName {
				heir.HW = raisedTo(heir.HW, d.HW)
			}
		}
		heirs = append(heirs, heir)
	}
	return replaceDocs(t, heirs, nil)
}

// Collectable iterates over the documents that promise nothing, in no order. It yields the keys and revisions of
// documents of nodes without entries, of budgets without claims, and of volumes and pools without holders that have
// a reservation (FinishHolders). It omits the document of a name's incarnation while the name has another document:
// without its incarnation the name would seem new to a member that has not seen that other document.
func Collectable(v *replica.View) iter.Seq2[string, int64] {
	return func(yield func(string, int64) bool) {
		for d := range v.Docs() {
			mayGo := v.Names().Incarnation(d.NodeName).NodeUID != d.NodeUID || len(v.Names().Docs(d.NodeName)) == 1
			if mayGo && len(d.Entries) == 0 && !yield(d.DocKey(), d.Revision) {
				return
			}
		}
		for b := range v.Budgets().All() {
			if len(b.Claims) == 0 && !yield(b.DocKey(), b.Revision) {
				return
			}
		}
		for x := range v.Exclusives().All() {
			x, _ = FinishHolders(x, v)
			if len(x.Holders) == 0 && !yield(x.DocKey(), x.Revision) {
				return
			}
		}
	}
}

// CollectionOf gathers the documents with the given keys, from those in Collectable, together with what else their
// collection needs.
func CollectionOf(v *replica.View, keys []string) Collection {
	c := Collection{Floor: v.Floor()}
	for _, key := range keys {
		if d, ok := v.Doc(strings.TrimPrefix(key, ledger.PrefixNode)); ok {
			c.Docs = append(c.Docs, d)
			continue
		}
		if b := v.Budgets().Of(strings.TrimPrefix(key, ledger.PrefixBudget)); b.Revision > 0 {
			c.Budgets = append(c.Budgets, b)
			continue
		}
		if x := v.Exclusives().Of(key); x.Revision > 0 {
			x, _ = FinishHolders(x, v)
			c.Exclusives = append(c.Exclusives, x)
		}
	}
	names := map[string]bool{}
	for _, d := range c.Docs {
		i := v.Names().Incarnation(d.NodeName)
		if i.Revision == 0 || names[d.NodeName] {
			continue
		}
		names[d.NodeName] = true
		c.Incarnations = append(c.Incarnations, i)
		if heir, ok := v.Doc(i.NodeUID); ok && !slices.Contains(keys, heir.DocKey()) {
			c.Successors = append(c.Successors, heir)
		}
	}
	return c
}
