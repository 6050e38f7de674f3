package replica

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// nameView is the part of a View about the names of nodes.
type nameView struct {
	floor        ledger.Floor
	incarnations map[string]ledger.Incarnation
	// docs are the UIDs of the nodes with documents, by node name.
	docs map[string][]string
	// ahead are the revisions of documents that lost compares have shown ahead of the watch, by node UID: see
	// View.Learn.
	ahead map[string]int64
}

func newNameView() nameView {
	return nameView{incarnations: map[string]ledger.Incarnation{}, docs: map[string][]string{}, ahead: map[string]int64{}}
}

func (nv *nameView) clone() nameView {
	return nameView{
		floor: nv.floor, incarnations: maps.Clone(nv.incarnations), docs: maps.Clone(nv.docs), ahead: maps.Clone(nv.ahead),
	}
}

// note records that a lost compare has shown a document that did not exist yet at the revision that this member
// knew. Other nodes may have had the name in between, and only the watch shows that. (While a document exists, a
// node that takes over its node's name marks it; and no node gets a name back: another node of the name is another
// object to Kubernetes, with a UID of its own.)
//
// A document that the member's own transaction puts is as reliable as what that transaction compared.
func (nv *nameView) note(kv ledger.KV, known int64) {
	if uid, is := strings.CutPrefix(kv.Key, ledger.PrefixNode); is && kv.CreateRevision > known {
		nv.ahead[uid] = kv.ModRevision
	}
}

// reached forgets the entries of ahead that the watch has caught up with.
func (nv *nameView) reached(revision int64) {
	maps.DeleteFunc(nv.ahead, func(_ string, ahead int64) bool { return ahead <= revision })
}

// AheadOfWatch reports whether there are nodes that are not admitted only because the watch has yet to show the
// documents that a lost compare has shown. This lasts a moment: the watch is about to deliver them.
func (v *View) AheadOfWatch() bool { return len(v.names.ahead) > 0 }

// index updates the index of names for one document that changed from old to now.
func (nv *nameView) index(old, now ledger.NodeDoc) {
	if old.NodeUID == now.NodeUID && old.NodeName == now.NodeName {
		return
	}
	if old.NodeUID != "" {
		at := slices.DeleteFunc(slices.Clone(nv.docs[old.NodeName]), func(uid string) bool { return uid == old.NodeUID })
		if nv.docs[old.NodeName] = at; len(at) == 0 {
			delete(nv.docs, old.NodeName)
		}
	}
	if now.NodeUID != "" {
		nv.docs[now.NodeName] = append(slices.Clip(nv.docs[now.NodeName]), now.NodeUID)
	}
}

// Floor returns what stands in for the documents that were collected.
func (v *View) Floor() ledger.Floor { return v.names.floor }

// Incarnation returns the node that a node name stands for; at Revision 0 if none was admitted.
func (v *View) Incarnation(nodeName string) ledger.Incarnation {
	if i, ok := v.names.incarnations[nodeName]; ok {
		return i
	}
	return ledger.Incarnation{NodeName: nodeName}
}

// Incarnations iterates over those of all node names, in no order.
func (v *View) Incarnations() func(yield func(ledger.Incarnation) bool) {
	return maps.Values(v.names.incarnations)
}

// Named returns the documents of all nodes that have or had a name, by node UID.
func (v *View) Named(nodeName string) []ledger.NodeDoc {
	var out []ledger.NodeDoc
	for _, uid := range slices.Sorted(slices.Values(v.names.docs[nodeName])) {
		out = append(out, v.docs[uid])
	}
	return out
}

// Admission returns how a member may use a node whose resourceVersion in the member's facts is nodeRV.
func (v *View) Admission(nodeUID, nodeName string, nodeRV uint64) Admission {
	i, known := v.names.incarnations[nodeName]
	doc, stored := v.docs[nodeUID]
	switch {
	case v.names.ahead[nodeUID] > v.revision:
		return Superseded // by the documents that the watch has yet to show
	case known && i.NodeUID == nodeUID && stored && doc.SupersededBy == "", !known && len(v.names.docs[nodeName]) == 0:
		return Admitted
	case known && (i.NodeUID == nodeUID || i.NodeRV >= nodeRV):
		return Superseded
	}
	for _, uid := range v.names.docs[nodeName] {
		if uid != nodeUID && v.docs[uid].HW[ledger.KindNode] > nodeRV {
			return Superseded
		}
	}
	return Unadmitted
}

// Version returns the version of a node's document. A decision that has counted a document may be committed on that
// version of it only.
func (v *View) Version(nodeUID string) ledger.Version {
	if d, ok := v.docs[nodeUID]; ok {
		return ledger.Version{Revision: d.Revision}
	}
	return ledger.Version{Floor: v.names.floor.Revision}
}

// Open returns the document of a node for something to be added to it. A first document starts from the floor, at
// Revision 0, and covers the node's version in the caller's facts. (The floor's high-water of nodes is not used, as
// it is from other nodes: with it this node would pass for a later one than it is, and block its successor.)
func (v *View) Open(nodeUID, nodeName string, nodeRV uint64) ledger.NodeDoc {
	if d, ok := v.docs[nodeUID]; ok {
		return d
	}
	d := ledger.NodeDoc{
		NodeUID: nodeUID, NodeName: nodeName, Floor: v.names.floor.Revision,
		HW: ledger.Raised(v.names.floor.Of(ledger.KindPod, ledger.KindClaim), ledger.KindNode, nodeRV),
	}
	for _, uid := range v.names.docs[nodeName] {
		d.SupersededBy = uid // or by a node after it: a first document is for a name without others
	}
	return d
}

// name links a document with the earlier documents of its node's name.
func (v *View) name(d *ledger.NodeDoc) {
	d.Older = nil
	if d.SupersededBy != "" {
		return
	}
	for _, uid := range v.names.docs[d.NodeName] {
		if uid == d.NodeUID {
			continue
		}
		if older := v.docs[uid]; len(older.Entries)+len(older.HW) > 0 {
			older.Older, d.Older = d.Older, &older
		}
	}
}

// renamed updates the links between the documents of a name, where there are several.
func (v *View) renamed(nodeName string) {
	uids := v.names.docs[nodeName]
	if len(uids) == 1 && v.docs[uids[0]].Older == nil {
		return
	}
	for _, uid := range uids {
		d := v.docs[uid]
		v.name(&d)
		v.docs[uid] = d
	}
}

func (v *View) putIncarnation(kv ledger.KV, set *changeSet) error {
	i, err := codec.DecodeIncarnation(kv)
	if err != nil || i.Revision <= v.names.incarnations[i.NodeName].Revision {
		return err
	}
	v.names.incarnations[i.NodeName] = i
	set.names = append(set.names, i.NodeName)
	return nil
}

func (v *View) dropIncarnation(key string, revision int64, set *changeSet) {
	name := key[len(ledger.PrefixIncarnation):]
	if i, known := v.names.incarnations[name]; known && i.Revision < revision {
		delete(v.names.incarnations, name)
		set.names = append(set.names, name)
	}
}

func (v *View) putFloor(kv ledger.KV, set *changeSet) error {
	if kv.ModRevision <= v.names.floor.Revision {
		return nil
	}
	f, err := codec.DecodeFloor(kv)
	if err != nil {
		return err
	}
	v.names.floor, set.floor = f, true
	if kv.ModRevision == v.generation.Revision {
		v.forgetHighest() // it is the floor of another generation, and need not be above the one before
	}
	v.raise(f.HW)
	return nil
}

// Admission is how a member may use a node.
type Admission uint8

const (
	// Admitted: placements are made on its document, which may not exist yet.
	Admitted Admission = iota + 1
	// Unadmitted: another node had the name, or its documents predate incarnations. The node has to be admitted
	// first (AdmitNode).
	Unadmitted
	// Superseded: a later node has the name, or the view of the ledger is behind. Nothing is placed there.
	Superseded
)
