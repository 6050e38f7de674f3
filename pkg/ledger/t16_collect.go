package ledger

import (
	"fmt"
	"maps"
	"slices"
)

// Collection is T16 (collect): documents of objects that are gone are deleted.
type Collection struct {
	Floor Floor
	// Docs have no entries, Budgets no claims, Exclusives no holders. As read.
	Docs       []NodeDoc
	Budgets    []BudgetDoc
	Exclusives []ExclusiveDoc
	// Incarnations are those of the names of Docs, and Successors the documents of the nodes that
	// they name, if those are others. As read.
	Incarnations []Incarnation
	Successors   []NodeDoc
}

// Collect builds T16. What the documents stood for is left in the floor, and for the name of a node
// that lives on in the document of that node. So it does no harm where the object is not gone after
// all: its next document starts from the floor, and so does every member's picture of a document
// that does not exist.
//
// Compares: floor, every document and incarnation. Puts: floor, the successors. Deletes: the
// documents, and the incarnations that name their nodes. A crash before it changes nothing, after it
// nothing is left to do. *RefusedError if a document is not empty.
func (c Collection) Collect() (Txn, error) {
	hw := maps.Clone(c.Floor.HW)
	var t Txn
	remove := func(key string, revision int64, entries int, of map[string]uint64) error {
		if entries > 0 || revision == 0 {
			return &RefusedError{Step: "T16 collect", Reason: fmt.Sprintf(
				"document %s at revision %d has %d entries: want one that is stored and has none", key, revision, entries)}
		}
		for kind, rv := range of {
			hw = raised(hw, kind, rv)
		}
		t.Compares = append(t.Compares, Compare{Key: key, Target: ModRevision, Revision: revision})
		t.Deletes = append(t.Deletes, key)
		return nil
	}
	for _, d := range c.Docs {
		if err := remove(d.key(), d.Revision, len(d.Entries), d.HW); err != nil {
			return Txn{}, err
		}
	}
	for _, b := range c.Budgets {
		if err := remove(b.key(), b.Revision, len(b.Claims), b.HW); err != nil {
			return Txn{}, err
		}
	}
	for _, x := range c.Exclusives {
		if err := remove(x.key(), x.Revision, len(x.Holders), x.HW); err != nil {
			return Txn{}, err
		}
	}
	if err := c.names(&t); err != nil {
		return Txn{}, err
	}
	floor, err := EncodeFloor(Floor{HW: hw})
	if err != nil {
		return Txn{}, err
	}
	t.Compares = append(t.Compares, Compare{Key: KeyFloor, Target: ModRevision, Revision: c.Floor.Revision})
	t.Puts = append(t.Puts, Put{Key: KeyFloor, Value: floor})
	return t, t.Validate()
}

// names deletes the incarnations that name collected nodes, and hands high-waters to the nodes that
// have the names of others.
func (c Collection) names(t *Txn) error {
	for _, i := range c.Incarnations {
		t.Compares = append(t.Compares, Compare{Key: i.key(), Target: ModRevision, Revision: i.Revision})
		if slices.ContainsFunc(c.Docs, func(d NodeDoc) bool { return d.NodeUID == i.NodeUID }) {
			t.Deletes = append(t.Deletes, i.key())
		}
	}
	var heirs []NodeDoc
	for _, heir := range c.Successors {
		for _, d := range c.Docs {
			for kind, rv := range d.HW {
				if d.NodeName == heir.NodeName {
					heir = Cover(heir, kind, rv)
				}
			}
		}
		heirs = append(heirs, heir)
	}
	return t.replaceDocs(heirs, nil)
}
