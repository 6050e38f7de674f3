package replica

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// documents holds the documents of nodes and their indexes. Only its own methods change it; the parts of a View that
// follow from documents (Names, Plans, Budgets, Exclusives) read it. All of them share one *documents, which a View
// replaces as a whole when it is cleared or cloned.
type documents struct {
	byNode map[string]ledger.NodeDoc
	// values has the stored forms of the documents in byNode that have entries, so that their next revisions are
	// decoded by difference.
	values map[string][]byte
	// byName lists the UIDs of the nodes with documents, by node name.
	byName map[string][]string
	// reserved lists, by pod UID, the nodes whose documents reserve for the pod: one, unless the protocol was
	// violated.
	reserved map[string][]string
	// floor stands in for the documents that were collected, and for those that never existed.
	floor ledger.Floor
	// highest is the highest high-water of any document seen, by kind.
	highest map[string]uint64
	// reached is, by kind, the highest resourceVersion that an entry of any document seen names.
	reached map[string]uint64
}

func newDocuments() *documents {
	return &documents{
		byNode: map[string]ledger.NodeDoc{}, values: map[string][]byte{}, byName: map[string][]string{},
		reserved: map[string][]string{}, highest: map[string]uint64{}, reached: map[string]uint64{},
	}
}

func (ds *documents) clone() *documents {
	return &documents{
		byNode: maps.Clone(ds.byNode), values: maps.Clone(ds.values), byName: maps.Clone(ds.byName),
		reserved: maps.Clone(ds.reserved), floor: ds.floor, highest: maps.Clone(ds.highest),
		reached: maps.Clone(ds.reached),
	}
}

// all iterates over the documents, in no order.
func (ds *documents) all() iter.Seq[ledger.NodeDoc] {
	return func(yield func(ledger.NodeDoc) bool) {
		for _, d := range ds.byNode {
			if !yield(d) {
				return
			}
		}
	}
}

// reservations iterates over the entries that reserve for a pod, with their documents.
func (ds *documents) reservations(podUID string) iter.Seq2[ledger.NodeDoc, ledger.Entry] {
	return func(yield func(ledger.NodeDoc, ledger.Entry) bool) {
		for _, uid := range ds.reserved[podUID] {
			d := ds.byNode[uid]
			if e, ok := d.Find(podUID); ok && !yield(d, e) {
				return
			}
		}
	}
}

// before orders the reservations of one pod by how soon they bind it, then by node UID.
func before(d ledger.NodeDoc, e ledger.Entry, other ledger.NodeDoc, otherEntry ledger.Entry) bool {
	rank := func(s ledger.State) int {
		return slices.Index([]ledger.State{ledger.Committed, ledger.Fencing, ledger.Held}, s)
	}
	c := cmp.Or(cmp.Compare(rank(e.State), rank(otherEntry.State)), strings.Compare(d.NodeUID, other.NodeUID))
	return c < 0
}

// open returns the document of a node for something to be added to it: see View.Open.
func (ds *documents) open(nodeUID, nodeName string, nodeRV uint64) ledger.NodeDoc {
	if d, ok := ds.byNode[nodeUID]; ok {
		return d
	}
	d := ledger.NodeDoc{
		NodeUID: nodeUID, NodeName: nodeName, Floor: ds.floor.Revision,
		HW: ledger.Raised(ds.floor.Of(ledger.KindPod, ledger.KindClaim), ledger.KindNode, nodeRV),
	}
	for _, uid := range ds.byName[nodeName] {
		d.SupersededBy = uid // or by a node after it: a first document is for a name without others
	}
	return d
}

// stored returns the document of a node with its stored form; without a value if there is no entry, or no document.
func (ds *documents) stored(nodeUID string) ledger.StoredDoc {
	return ledger.StoredDoc{Doc: ds.byNode[nodeUID], Value: ds.values[nodeUID]}
}

// decode returns how a key that was put changes its document; false if the view has that revision of it or a newer one.
// A document that this process has put itself is taken as it was built.
func (ds *documents) decode(kv ledger.KV) (revised, bool, error) {
	before := ds.stored(strings.TrimPrefix(kv.Key, ledger.PrefixNode))
	if before.Doc.NodeUID != "" && kv.ModRevision <= before.Doc.Revision {
		return revised{}, false, nil
	}
	if d, built := codec.Built(kv); built {
		return ds.revise(ledger.StoredDoc{Doc: d, Value: kv.Value}), true, nil
	}
	d, difference, err := codec.DecodeNodeDocAfter(kv, &before)
	if err != nil {
		return revised{}, false, err
	}
	return newRevised(before.Doc, ledger.StoredDoc{Doc: d, Value: kv.Value}, difference), true, nil
}

// revise returns how a document changes the one that its node has.
func (ds *documents) revise(after ledger.StoredDoc) revised {
	before := ds.stored(after.Doc.NodeUID)
	return newRevised(before.Doc, after, codec.Compare(&before, &after))
}

// set stores a document that has changed.
func (ds *documents) set(r *revised, set *changeSet) {
	d := &r.change.After
	ds.link(d)
	ds.byNode[d.NodeUID] = *d
	if len(d.Entries) > 0 {
		ds.values[d.NodeUID] = r.value
	} else {
		delete(ds.values, d.NodeUID)
	}
	ds.raise(d.HW)
	ds.recordVersions(r.change.Added)
	ds.index(&r.change, set)
	ds.relink(d.NodeName)
}

// drop removes the document of a node that was deleted at revision; false if there is none, or a newer one.
func (ds *documents) drop(nodeUID string, revision int64, set *changeSet) (c DocChange, dropped bool) {
	old, known := ds.byNode[nodeUID]
	if !known || old.Revision >= revision {
		return DocChange{}, false
	}
	delete(ds.byNode, nodeUID)
	delete(ds.values, nodeUID)
	c = DocChange{Before: old, Removed: pointersTo(old.Entries)}
	ds.index(&c, set)
	ds.relink(old.NodeName)
	return c, true
}

// putFloor stores the floor. At the revision at which a generation began it is the floor of that generation, and need
// not be above the floor of the one before.
func (ds *documents) putFloor(kv ledger.KV, begins bool, set *changeSet) error {
	if kv.ModRevision <= ds.floor.Revision {
		return nil
	}
	f, err := codec.DecodeFloor(kv)
	if err != nil {
		return err
	}
	ds.floor, set.floor = f, true
	if begins {
		ds.recomputeHighest()
	}
	ds.raise(f.HW)
	return nil
}

// raise keeps the highest high-waters.
func (ds *documents) raise(hw map[string]uint64) {
	for kind, rv := range hw {
		if rv > ds.highest[kind] {
			ds.highest[kind] = rv
		}
	}
}

// recordVersions records the resourceVersions that entries were decided on.
func (ds *documents) recordVersions(entries []*ledger.Entry) {
	var pods, claims uint64
	for _, e := range entries {
		pods = max(pods, e.PodRV)
		for j := range e.Dependents {
			pods = max(pods, e.Dependents[j].PodRV)
		}
		for j := range e.Devices {
			claims = max(claims, e.Devices[j].ClaimRV)
		}
	}
	if pods > ds.reached[ledger.KindPod] {
		ds.reached[ledger.KindPod] = pods
	}
	if claims > ds.reached[ledger.KindClaim] {
		ds.reached[ledger.KindClaim] = claims
	}
}

// recomputeHighest recomputes the highest high-waters, and how far Kubernetes must have come, from the documents that
// exist. Those of another generation may name resourceVersions that do not exist yet.
func (ds *documents) recomputeHighest() {
	clear(ds.highest)
	clear(ds.reached)
	for _, d := range ds.byNode {
		ds.raise(d.HW)
		ds.recordVersions(pointersTo(d.Entries))
	}
	ds.raise(ds.floor.HW)
}

// index updates the indexes for one document that changed, and adds the change to set.
func (ds *documents) index(c *DocChange, set *changeSet) {
	set.docs = append(set.docs, *c)
	old, now := &c.Before, &c.After
	ds.indexName(old, now)
	for _, e := range c.Removed {
		if e.Role != ledger.RoleReservation {
			continue
		}
		set.pods = append(set.pods, e.PodUID)
		if now.Reserves(e.PodUID) {
			continue // it stays where it is, in another form
		}
		at := ds.reserved[e.PodUID]
		if len(at) == 1 && at[0] == old.NodeUID {
			delete(ds.reserved, e.PodUID)
			continue
		}
		at = slices.DeleteFunc(slices.Clone(at), func(uid string) bool { return uid == old.NodeUID })
		if ds.reserved[e.PodUID] = at; len(at) == 0 {
			delete(ds.reserved, e.PodUID)
		}
	}
	for _, e := range c.Added {
		if e.Role != ledger.RoleReservation {
			continue
		}
		set.pods = append(set.pods, e.PodUID)
		if at := ds.reserved[e.PodUID]; !slices.Contains(at, now.NodeUID) {
			ds.reserved[e.PodUID] = append(slices.Clip(at), now.NodeUID)
		}
	}
}

// indexName updates byName for one document. Lists are replaced and never changed in place, because clones share them.
func (ds *documents) indexName(old, now *ledger.NodeDoc) {
	if old.NodeUID == now.NodeUID && old.NodeName == now.NodeName {
		return
	}
	if old.NodeUID != "" {
		at := slices.DeleteFunc(slices.Clone(ds.byName[old.NodeName]), func(uid string) bool { return uid == old.NodeUID })
		if ds.byName[old.NodeName] = at; len(at) == 0 {
			delete(ds.byName, old.NodeName)
		}
	}
	if now.NodeUID != "" {
		ds.byName[now.NodeName] = append(slices.Clip(ds.byName[now.NodeName]), now.NodeUID)
	}
}

// link links a document with the earlier documents of its node's name (NodeDoc.Older).
func (ds *documents) link(d *ledger.NodeDoc) {
	d.Older = nil
	if d.SupersededBy != "" {
		return
	}
	for _, uid := range ds.byName[d.NodeName] {
		if uid == d.NodeUID {
			continue
		}
		if older := ds.byNode[uid]; len(older.Entries)+len(older.HW) > 0 {
			older.Older, d.Older = d.Older, &older
		}
	}
}

// relink updates the links between the documents of a name, where there are several.
func (ds *documents) relink(nodeName string) {
	uids := ds.byName[nodeName]
	if len(uids) == 1 && ds.byNode[uids[0]].Older == nil {
		return
	}
	for _, uid := range uids {
		d := ds.byNode[uid]
		ds.link(&d)
		ds.byNode[uid] = d
	}
}
