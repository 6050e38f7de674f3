package state

import (
	"iter"
	"slices"
	"strings"

	memdb "github.com/hashicorp/go-memdb"
)

// podIndex is a table of all pods in the order of a key, in pages of up to maxPage: a tree of two levels, of which
// memdb is the upper one. A page is a row of the table. It holds the pods with keys after the previous page's key,
// up to its own key. So the page of a key is the first row at or after the key; memdb finds it without the
// allocation per step that a backward search costs. Pages are replaced, never changed. They are split when they are
// full and deleted when they are empty, but not merged: in the worst case there is a row per pod, which
// pages are meant to avoid.
type podIndex struct {
	table string
	key   func(*Pod) podKey
}

// podKey is ordered by first and then second; either may be empty.
type podKey struct{ first, second string }

// String returns text with the same order.
func (k podKey) String() string {
	if k.second == "" {
		return k.first
	}
	return k.first + separator + k.second
}

func (k podKey) compare(o podKey) int {
	if c := strings.Compare(k.first, o.first); c != 0 {
		return c
	}
	return strings.Compare(k.second, o.second)
}

var (
	// podsByUID and podsByName are the two tables of pods. Both hold the same pods; UIDs are random, so changes of
	// a namespace's pods touch many pages by UID and few by name.
	podsByUID  = podIndex{tablePods, func(p *Pod) podKey { return podKey{first: p.UID} }}
	podsByName = podIndex{tableNames, func(p *Pod) podKey { return podKey{p.Namespace, p.Name} }}
)

// page holds the pods with keys up to and including to, sorted, at least one. It is immutable.
type page struct {
	to   podKey
	pods []*Pod
}

// lastKey is the key of the last page: no valid text sorts after it, as it is not valid text itself.
var lastKey = podKey{first: "\xff"}

// maxPage keeps both costs small: how much a change copies, and the share of a page's cost that each of its pods
// bears.
const maxPage = 64

// pageOf returns the page that a key belongs to; nil when the key is after all pages.
func (x podIndex) pageOf(txn *memdb.Txn, k podKey) (*page, error) {
	rows, err := txn.LowerBound(x.table, indexID, k.String())
	if err != nil {
		return nil, err
	}
	p, _ := rows.Next().(*page)
	return p, nil
}

// find returns the pod with this key; nil when there is none.
func (x podIndex) find(txn *memdb.Txn, k podKey) (*Pod, error) {
	p, err := x.pageOf(txn, k)
	return x.on(p, k), err
}

// on returns the pod with this key on its page, which may be nil.
func (x podIndex) on(p *page, k podKey) *Pod {
	if p == nil {
		return nil
	}
	if i, ok := x.search(p.pods, k); ok {
		return p.pods[i]
	}
	return nil
}

// podLookup is an index as it was before an application. An application looks for the page of a key when it reads
// the fact and again when it writes; it is cached because a search costs more than all other work on a fact.
type podLookup struct {
	podIndex
	base  *memdb.Txn
	pages map[podKey]*page
	// last is the page found last. Pods of one owner have adjacent names, and so are often on the same page.
	last *page
}

// newPodLookup returns a lookup in the table as it is in base.
func newPodLookup(x podIndex, base *memdb.Txn) *podLookup {
	return &podLookup{podIndex: x, base: base, pages: map[podKey]*page{}}
}

// pageOf is podIndex.pageOf with a cache: first the page found last, then the pages found by exactly this key.
func (l *podLookup) pageOf(k podKey) (*page, error) {
	if l.last != nil && l.covers(l.last, k) {
		return l.last, nil
	}
	if p, ok := l.pages[k]; ok {
		return p, nil
	}
	p, err := l.podIndex.pageOf(l.base, k)
	if err == nil {
		l.pages[k], l.last = p, p
	}
	return p, err
}

// covers reports whether a key is between the first pod of a page and the page's end. Then it belongs to the page;
// a key before the first pod may belong to it, too.
func (x podIndex) covers(p *page, k podKey) bool {
	return x.key(p.pods[0]).compare(k) <= 0 && k.compare(p.to) <= 0
}

// find returns the pod with this key as it was before the application; nil when there is none.
func (l *podLookup) find(k podKey) (*Pod, error) {
	p, err := l.pageOf(k)
	return l.on(p, k), err
}

// all yields the pods in the order of their keys.
func (x podIndex) all(s *Snapshot) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		for p := range all[page](s, x.table, indexID+"_prefix", "") {
			for _, pod := range p.pods {
				if !yield(pod) {
					return
				}
			}
		}
	}
}

// from yields the pods from a key on, in the order of their keys, as long as wanted returns true.
func (x podIndex) from(s *Snapshot, k podKey, wanted func(*Pod) bool) iter.Seq[*Pod] {
	return func(yield func(*Pod) bool) {
		rows, err := s.read.LowerBound(x.table, indexID, k.String())
		if err != nil {
			impossible("scan "+x.table, err)
		}
		for raw := rows.Next(); raw != nil; raw = rows.Next() {
			pods := raw.(*page).pods
			at, _ := x.search(pods, k)
			for _, pod := range pods[at:] {
				if !wanted(pod) || !yield(pod) {
					return
				}
			}
		}
	}
}

// podEdit puts a pod at a key, or removes the pod that is there. Edits of one index are sorted by key before they
// are applied.
type podEdit struct {
	key podKey
	pod *Pod // nil to remove
}

// edits converts rows to edits of the index, in the order of keys. Where a key passes from one pod to another, the
// removal comes first.
func (x podIndex) edits(rows []*row[Pod]) []podEdit {
	list := make([]podEdit, 0, len(rows))
	for _, r := range rows {
		if r.was != nil && (r.is == nil || x.key(r.was) != x.key(r.is)) {
			list = append(list, podEdit{key: x.key(r.was)})
		}
	}
	for _, r := range rows {
		if r.is != nil {
			list = append(list, podEdit{key: x.key(r.is), pod: r.is})
		}
	}
	slices.SortStableFunc(list, func(a, b podEdit) int { return a.key.compare(b.key) })
	return list
}

// write applies rows to the table, page by page: the edits of a page are adjacent in the order of keys, so that
// each page is replaced once.
func (l *podLookup) write(txn *memdb.Txn, rows []*row[Pod]) error {
	edits := l.edits(rows)
	for len(edits) > 0 {
		p, err := l.pageOf(edits[0].key)
		if err != nil {
			return err
		}
		n := 1
		for n < len(edits) && (p == nil || edits[n].key.compare(p.to) <= 0) {
			n++
		}
		if err := l.replace(txn, p, edits[:n]); err != nil {
			return err
		}
		edits = edits[n:]
	}
	return nil
}

// replace replaces a page by the result of applying edits to it: no page, one or several. p is nil for keys after
// all pages. The last of several pages keeps the key of the old one, so that the keys of other pages remain valid;
// pods are divided evenly, so that the next insert does not split a page again.
func (x podIndex) replace(txn *memdb.Txn, p *page, edits []podEdit) error {
	if p == nil {
		p = &page{to: lastKey}
	}
	pods := x.merge(p.pods, edits)
	if len(pods) == 0 {
		if len(p.pods) == 0 {
			return nil
		}
		return txn.Delete(x.table, p)
	}
	for count := (len(pods) + maxPage - 1) / maxPage; count > 0; count-- {
		n, to := len(pods)/count, p.to
		if count > 1 {
			k := x.key(pods[n-1])
			to = podKey{strings.Clone(k.first), strings.Clone(k.second)} // else the page keeps the pod alive
		}
		if err := txn.Insert(x.table, &page{to: to, pods: slices.Clone(pods[:n])}); err != nil {
			return err
		}
		pods = pods[n:]
	}
	return nil
}

// merge applies edits to sorted pods, and returns a new list.
func (x podIndex) merge(pods []*Pod, edits []podEdit) []*Pod {
	merged := make([]*Pod, 0, len(pods)+len(edits))
	for _, e := range edits {
		i, found := x.search(pods, e.key)
		merged = append(merged, pods[:i]...)
		if found {
			i++
		}
		if pods = pods[i:]; e.pod != nil {
			merged = append(merged, e.pod)
		}
	}
	return append(merged, pods...)
}

// search returns the position of a key among sorted pods.
func (x podIndex) search(pods []*Pod, k podKey) (int, bool) {
	return slices.BinarySearchFunc(pods, k, func(pod *Pod, k podKey) int { return x.key(pod).compare(k) })
}
