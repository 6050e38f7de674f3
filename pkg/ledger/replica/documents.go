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
		byNode: map[string]ledger.NodeDoc{}, byName: map[string][]string{}, reserved: map[string][]string{},
		highest: map[string]uint64{}, reached: map[string]uint64{},
	}
}

func (ds *documents) clone() *documents {
	return &documents{
		byNode: maps.Clone(ds.byNode), byName: maps.Clone(ds.byName), reserved: maps.Clone(ds.reserved),
		floor: ds.floor, highest: maps.Clone(ds.highest), reached: maps.Clone(ds.reached),
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

// decode returns the document that a key holds; false if the view has that revision of it or a newer one.
func (ds *documents) decode(kv ledger.KV) (ledger.NodeDoc, bool, error) {
	old, held := ds.byNode[strings.TrimPrefix(kv.Key, ledger.PrefixNode)]
	if held && kv.ModRevision <= old.Revision {
		return ledger.NodeDoc{}, false, nil
	}
	d, err := codec.DecodeNodeDoc(kv)
	return d, err == nil, err
}

// set stores d as the document of its node, and returns the one that it replaces.
func (ds *documents) set(d ledger.NodeDoc, set *changeSet) (old ledger.NodeDoc) {
	old = ds.byNode[d.NodeUID]
	ds.link(&d)
	ds.byNode[d.NodeUID] = d
	ds.raise(d.HW)
	ds.recordVersions(d)
	ds.index(old, d, set)
	ds.relink(d.NodeName)
	return old
}

// drop removes the document of a node that was deleted at revision; false if there is none, or a newer one.
func (ds *documents) drop(nodeUID string, revision int64, set *changeSet) (old ledger.NodeDoc, dropped bool) {
	old, known := ds.byNode[nodeUID]
	if !known || old.Revision >= revision {
		return ledger.NodeDoc{}, false
	}
	delete(ds.byNode, nodeUID)
	ds.index(old, ledger.NodeDoc{}, set)
	ds.relink(old.NodeName)
	return old, true
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

// recordVersions records the resourceVersions that a document's entries were decided on.
func (ds *documents) recordVersions(d ledger.NodeDoc) {
	var pods, claims uint64
	for i := range d.Entries {
		e := &d.Entries[i]
		pods = max(pods, e.PodRV)
		for j := range e.Dependents {
			pods = max(pods, e.Dependents[j].PodRV)
		}
		for j := range e.Devices {
			claims = max(claims, e.Devices[j].ClaimRV)
		}
	}
	ds.reached[ledger.KindPod] = max(ds.reached[ledger.KindPod], pods)
	if claims > 0 {
		ds.reached[ledger.KindClaim] = max(ds.reached[ledger.KindClaim], claims)
	}
}

// recomputeHighest recomputes the highest high-waters, and how far Kubernetes must have come, from the documents that
// exist. Those of another generation may name resourceVersions that do not exist yet.
func (ds *documents) recomputeHighest() {
	clear(ds.highest)
	clear(ds.reached)
	for _, d := range ds.byNode {
		ds.raise(d.HW)
		ds.recordVersions(d)
	}
	ds.raise(ds.floor.HW)
}

// index updates the indexes for one document that changed from old to now. The zero document stands for none.
func (ds *documents) index(old, now ledger.NodeDoc, set *changeSet) {
	set.docs = append(set.docs, DocChange{Before: old, After: now})
	ds.indexName(old, now)
	// Most reservations of a document stay where they are when it is written again.
	for e := range old.Reservations() {
		set.pod(e.PodUID)
		if now.Reserves(e.PodUID) {
			continue
		}
		at := slices.DeleteFunc(slices.Clone(ds.reserved[e.PodUID]), func(uid string) bool { return uid == old.NodeUID })
		if len(at) == 0 {
			delete(ds.reserved, e.PodUID)
			continue
		}
		ds.reserved[e.PodUID] = at
	}
	for e := range now.Reservations() {
		set.pod(e.PodUID)
		if old.Reserves(e.PodUID) {
			continue
		}
		ds.reserved[e.PodUID] = append(slices.Clip(ds.reserved[e.PodUID]), now.NodeUID)
	}
}

// indexName updates byName for one document. Lists are replaced and never changed in place, because clones share them.
func (ds *documents) indexName(old, now ledger.NodeDoc) {
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
