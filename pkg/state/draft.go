package state

import (
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"
)

// draft holds the changes to the objects of one table, by id and by name, until they are written. Lookups in a
// draft see its changes. Pods have no draft: see podEdit.
type draft[T any] struct {
	// keys returns the two keys of an object.
	keys func(*T) (id, name string)
	// find looks up the tables as they were, by an index.
	find func(index, key string) (*T, error)
	// ids holds the rows that changed; names the present holder of each name that changed. Both are nil while nothing
	// has changed: most applications are about pods alone.
	ids   map[string]*row[T]
	names map[string]*T // nil for a name that is free now
	// order is that of the first change, so that tables are written the same way every time.
	order []*row[T]
}

// row is one object by its id: as it was in the table, and as it is now; nil when there is none.
type row[T any] struct{ was, is *T }

// byID returns the object with this id; nil when there is none.
func (d *draft[T]) byID(id string) (*T, error) {
	if r, ok := d.ids[id]; ok {
		return r.is, nil
	}
	return d.find(indexID, id)
}

// namesake returns the object that holds the name of v under another id. The API server lets a name belong to one
// UID at a time, so that object is gone, and its deletion was missed or follows later (a relist adds the new object
// before it notices the old one's absence).
func (d *draft[T]) namesake(v *T) (*T, error) {
	id, name := d.keys(v)
	holder, ok := d.names[name]
	if !ok {
		var err error
		if holder, err = d.find(indexName, name); err != nil {
			return nil, err
		}
	}
	if holder != nil {
		if holderID, _ := d.keys(holder); holderID == id {
			return nil, nil
		}
	}
	return holder, nil
}

// replace records one change. before is the current result of byID; either may be nil.
func (d *draft[T]) replace(before, after *T) {
	if d.ids == nil {
		d.ids, d.names = map[string]*row[T]{}, map[string]*T{}
	}
	if before != nil {
		id, name := d.keys(before)
		d.row(id, before).is = nil
		d.names[name] = nil
	}
	if after != nil {
		id, name := d.keys(after)
		d.row(id, before).is = after
		d.names[name] = after
	}
}

// row returns the row of an id; was is the table's value if the row is new.
func (d *draft[T]) row(id string, was *T) *row[T] {
	r, ok := d.ids[id]
	if !ok {
		r = &row[T]{was: was}
		d.ids[id] = r
		d.order = append(d.order, r)
	}
	return r
}

// newDraft returns a draft of a table with a row per object.
func newDraft[T any](base *memdb.Txn, table string, keys func(*T) (id, name string)) draft[T] {
	return draft[T]{
		keys: keys,
		find: func(index, key string) (*T, error) {
			raw, err := base.First(table, index, key)
			v, _ := raw.(*T)
			return v, err
		},
	}
}

// writeRows writes a draft to its table. It deletes before it inserts, since a name may have passed to another
// object.
func writeRows[T any](txn *memdb.Txn, table string, d *draft[T]) error {
	for _, r := range d.order {
		if r.was != nil && (r.is == nil || d.renamed(r)) {
			if err := txn.Delete(table, r.was); err != nil {
				return err
			}
		}
	}
	for _, r := range d.order {
		if r.is != nil {
			if err := txn.Insert(table, r.is); err != nil {
				return err
			}
		}
	}
	return nil
}

// renamed reports whether an object has another name than its row in the table: its index entry is deleted then.
func (d *draft[T]) renamed(r *row[T]) bool {
	_, was := d.keys(r.was)
	_, is := d.keys(r.is)
	return was != is
}

// site holds the slots of the pods bound to one node, or of those of one pod group, sorted by their UIDs. key is the
// name of the node, or the key of the group. It is immutable.
type site struct {
	key   string
	slots []uint32
}

// siteDraft holds the changes to a table of sites. Each changed site is copied once per application, and written once,
// however many of its pods came or went.
type siteDraft struct {
	base  *memdb.Txn
	table string
	// pods are all pods, with the changes of the application.
	pods  *podTable
	byKey map[string]*siteChange
	order []*siteChange
}

// siteChange is a site as it was, nil when there was none, and as it is now.
type siteChange struct {
	was *site
	is  site
}

// at returns the change of a site, with a copy of the table's list that may be changed.
func (d *siteDraft) at(key string) (*siteChange, error) {
	if c, ok := d.byKey[key]; ok {
		return c, nil
	}
	raw, err := d.base.First(d.table, indexID, key)
	if err != nil {
		return nil, err
	}
	c := &siteChange{is: site{key: key}}
	if was, ok := raw.(*site); ok {
		c.was = was
		c.is = site{key: was.key, slots: slices.Clone(was.slots)}
	}
	if d.byKey == nil {
		d.byKey = map[string]*siteChange{}
	}
	d.byKey[c.is.key] = c
	d.order = append(d.order, c)
	return c, nil
}

// add records that a pod with this UID, in a slot, is at a site. It returns the site's own copy of its key, which all
// its pods share.
func (d *siteDraft) add(key string, slot uint32, uid string) (shared string, err error) {
	c, err := d.at(key)
	if err != nil {
		return key, err
	}
	i, _ := d.search(c.is.slots, uid)
	c.is.slots = slices.Insert(c.is.slots, i, slot)
	return c.is.key, nil
}

// remove records that a pod is not at a site any more. The pod must still be in its slot.
func (d *siteDraft) remove(key, uid string) error {
	c, err := d.at(key)
	if err != nil {
		return err
	}
	if i, ok := d.search(c.is.slots, uid); ok {
		c.is.slots = slices.Delete(c.is.slots, i, i+1)
	}
	return nil
}

// search returns the position of a UID among sorted pods.
func (d *siteDraft) search(slots []uint32, uid string) (int, bool) {
	return slices.BinarySearchFunc(slots, uid, func(slot uint32, uid string) int {
		return strings.Compare(d.pods.at(slot).UID, uid)
	})
}

// write writes the changed sites, trimmed to their size: lists live as long as the pods at the site. A site without
// pods has no row.
func (d *siteDraft) write(txn *memdb.Txn) error {
	for _, c := range d.order {
		switch {
		case len(c.is.slots) > 0:
			now := site{key: c.is.key, slots: append(make([]uint32, 0, len(c.is.slots)), c.is.slots...)}
			if err := txn.Insert(d.table, &now); err != nil {
				return err
			}
		case c.was != nil:
			if err := txn.Delete(d.table, c.was); err != nil {
				return err
			}
		}
	}
	return nil
}
