package state

import (
	"cmp"
	"iter"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"
)

// podNames is the order of all pods by namespace and name, in pages of up to maxPage: a tree of two levels, of which
// memdb is the upper one. A page is a row of the table. It holds the slots of the pods with names after the previous
// page's last name, up to its own. So the page of a name is the first row at or after it; memdb finds it without the
// allocation per step that a backward search costs. Pages are replaced, never changed. They are split when they are
// full and deleted when they are empty, but not merged: in the worst case there is a row per pod, which pages are meant
// to avoid.
//
// A version of the order is a memdb transaction and the pods of the same moment, which the slots stand for.
type podNames struct {
	txn  *memdb.Txn
	pods *podTable
}

// podKey is ordered by namespace and then name; name may be empty.
type podKey struct{ namespace, name string }

// String returns text with the same order.
func (k podKey) String() string {
	if k.name == "" {
		return k.namespace
	}
	return k.namespace + separator + k.name
}

func (k podKey) compare(o podKey) int {
	return cmp.Or(strings.Compare(k.namespace, o.namespace), strings.Compare(k.name, o.name))
}

// keyOf returns the key of a pod.
func keyOf(p *Pod) podKey { return podKey{p.Namespace, p.Name} }

// page holds the slots of the pods with names up to and including to, sorted by name, at least one. It is immutable.
type page struct {
	to    podKey
	slots []uint32
}

// lastKey is the key of the last page: no valid text sorts after it, as it is not valid text itself.
var lastKey = podKey{namespace: "\xff"}

// maxPage keeps both costs small: how much a change copies, and the share of a page's cost that each of its pods
// bears.
const maxPage = 64

// pageOf returns the page that a name belongs to; nil when it is after all pages.
func (n podNames) pageOf(k podKey) (*page, error) {
	rows, err := n.txn.LowerBound(tableNames, indexID, k.String())
	if err != nil {
		return nil, err
	}
	p, _ := rows.Next().(*page)
	return p, nil
}

// find returns the slot of the pod with this name.
func (n podNames) find(k podKey) (slot uint32, ok bool, err error) {
	p, err := n.pageOf(k)
	if err != nil || p == nil {
		return 0, false, err
	}
	i, ok := n.search(p.slots, k)
	if !ok {
		return 0, false, nil
	}
	return p.slots[i], true, nil
}

// search returns the position of a name among sorted pods.
func (n podNames) search(slots []uint32, k podKey) (int, bool) {
	return slices.BinarySearchFunc(slots, k, func(slot uint32, k podKey) int {
		return keyOf(n.pods.at(slot)).compare(k)
	})
}

// all yields the pods in the order of their names.
func (n podNames) all() iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		rows, err := n.txn.Get(tableNames, indexID+"_prefix", "")
		if err != nil {
			impossible("scan "+tableNames, err)
		}
		for raw := rows.Next(); raw != nil; raw = rows.Next() {
			for _, slot := range raw.(*page).slots {
				if !yield(n.pods.at(slot)) {
					return
				}
			}
		}
	}
}

// in yields the pods of a namespace in the order of their names.
func (n podNames) in(namespace string) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		from := podKey{namespace: namespace}
		rows, err := n.txn.LowerBound(tableNames, indexID, from.String())
		if err != nil {
			impossible("scan "+tableNames, err)
		}
		for raw := rows.Next(); raw != nil; raw = rows.Next() {
			slots := raw.(*page).slots
			at, _ := n.search(slots, from)
			for _, slot := range slots[at:] {
				if pod := n.pods.at(slot); pod.Namespace != namespace || !yield(pod) {
					return
				}
			}
		}
	}
}

// nameDraft holds the changes to the order of names until they are written: only pods that come, go or change their
// name have any.
type nameDraft struct {
	// was is the order before the application, now the pods with its changes. Where a slot is in both, it stands for
	// the same pod.
	was podNames
	now *podTable
	// changed holds the present holder of each name that changed.
	changed map[podKey]holder
}

// holder is the slot of the pod that has a name, or that the name is free.
type holder struct {
	slot uint32
	free bool
}

// holder returns the slot of the pod that has a name, with the changes; false if it is free.
func (d *nameDraft) holder(k podKey) (slot uint32, ok bool, err error) {
	if h, changed := d.changed[k]; changed {
		return h.slot, !h.free, nil
	}
	return d.was.find(k)
}

// set records who has a name.
func (d *nameDraft) set(k podKey, h holder) {
	if d.changed == nil {
		d.changed = map[podKey]holder{}
	}
	d.changed[k] = h
}

// nameEdit puts a pod at a name, or removes the pod that is there.
type nameEdit struct {
	key podKey
	holder
}

// write writes the changes to the table, page by page: the edits of a page are adjacent in the order of names, so that
// each page is replaced once.
func (d *nameDraft) write(txn *memdb.Txn) error {
	edits := make([]nameEdit, 0, len(d.changed))
	for k, h := range d.changed {
		edits = append(edits, nameEdit{k, h})
	}
	slices.SortFunc(edits, func(a, b nameEdit) int { return a.key.compare(b.key) })
	for len(edits) > 0 {
		p, err := d.was.pageOf(edits[0].key)
		if err != nil {
			return err
		}
		n := 1
		for n < len(edits) && (p == nil || edits[n].key.compare(p.to) <= 0) {
			n++
		}
		if err := d.replace(txn, p, edits[:n]); err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}

// replace replaces a page by the result of applying edits to it: no page, one or several. p is nil for names after
// all pages. The last of several pages keeps the key of the old one, so that the keys of other pages remain valid;
// pods are divided evenly, so that the next addition does not split a page again.
func (d *nameDraft) replace(txn *memdb.Txn, p *page, edits []nameEdit) error {
	if p == nil {
		p = &page{to: lastKey}
	}
	merged := d.merge(p.slots, edits)
	if len(merged) == 0 {
		if len(p.slots) == 0 {
			return nil
		}
		return txn.Delete(tableNames, p)
	}
	for count := (len(merged) + maxPage - 1) / maxPage; count > 0; count-- {
		n, to := len(merged)/count, p.to
		if count > 1 {
			k := keyOf(d.now.at(merged[n-1]))
			to = podKey{strings.Clone(k.namespace), strings.Clone(k.name)} // else the page keeps the pod alive
		}
		if err := txn.Insert(tableNames, &page{to: to, slots: slices.Clone(merged[:n])}); err != nil {
			return err
		}
		merged = merged[n:]
	}
	return nil
}

// merge applies edits to the slots of a page, and returns a new list.
func (d *nameDraft) merge(slots []uint32, edits []nameEdit) []uint32 {
	merged := make([]uint32, 0, len(slots)+len(edits))
	for _, e := range edits {
		i, found := d.was.search(slots, e.key)
		merged = append(merged, slots[:i]...)
		if found {
			i++
		}
		if slots = slots[i:]; !e.free {
			merged = append(merged, e.slot)
		}
	}
	return append(merged, slots...)
}
