package replica

import (
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/ledger/codec"
)

// Names is the part of a View about the names of nodes: which node each name stands for (ledger.Incarnation), and
// whether a member may use a node under its name.
type Names struct {
	incarnations map[string]ledger.Incarnation
	// ahead are the revisions of documents that lost compares have shown ahead of the watch, by node UID: see
	// View.Learn. It holds revisions above the view's only; reached removes the others.
	ahead map[string]int64
	docs  *documents
}

func newNames(docs *documents) Names {
	return Names{incarnations: map[string]ledger.Incarnation{}, ahead: map[string]int64{}, docs: docs}
}

func (n *Names) clone(docs *documents) Names {
	return Names{incarnations: maps.Clone(n.incarnations), ahead: maps.Clone(n.ahead), docs: docs}
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

// Incarnation returns the node that a node name stands for; at Revision 0 if none was admitted.
func (n *Names) Incarnation(nodeName string) ledger.Incarnation {
	if i, ok := n.incarnations[nodeName]; ok {
		return i
	}
	return ledger.Incarnation{NodeName: nodeName}
}

// Incarnations iterates over those of all node names, in no order.
func (n *Names) Incarnations() iter.Seq[ledger.Incarnation] { return maps.Values(n.incarnations) }

// Docs returns the documents of all nodes that have or had a name, by node UID.
func (n *Names) Docs(nodeName string) []ledger.NodeDoc {
	var out []ledger.NodeDoc
	for _, uid := range slices.Sorted(slices.Values(n.docs.byName[nodeName])) {
		out = append(out, n.docs.byNode[uid])
	}
	return out
}

// Admission returns how a member may use a node whose resourceVersion in the member's facts is nodeRV.
func (n *Names) Admission(nodeUID, nodeName string, nodeRV uint64) Admission {
	i, known := n.incarnations[nodeName]
	doc, stored := n.docs.byNode[nodeUID]
	_, ahead := n.ahead[nodeUID]
	named := n.docs.byName[nodeName]
	switch {
	case ahead:
		return Superseded // by the documents that the watch has yet to show
	case known && i.NodeUID == nodeUID && stored && doc.SupersededBy == "", !known && len(named) == 0:
		return Admitted
	case known && (i.NodeUID == nodeUID || i.NodeRV >= nodeRV):
		return Superseded
	}
	for _, uid := range named {
		if uid != nodeUID && n.docs.byNode[uid].HW[ledger.KindNode] > nodeRV {
			return Superseded
		}
	}
	return Unadmitted
}

// AheadOfWatch reports whether there are nodes that are not admitted only because the watch has yet to show the
// documents that a lost compare has shown. This lasts a moment: the watch is about to deliver them.
func (n *Names) AheadOfWatch() bool { return len(n.ahead) > 0 }

// note records that a lost compare has shown a document that did not exist yet at the revision that this member
// knew. Other nodes may have had the name in between, and only the watch shows that. (While a document exists, a
// node that takes over its node's name marks it; and no node gets a name back: another node of the name is another
// object to Kubernetes, with a UID of its own.)
//
// A document that the member's own transaction puts is as reliable as what that transaction compared.
func (n *Names) note(kv ledger.KV) {
	uid, is := strings.CutPrefix(kv.Key, ledger.PrefixNode)
	if is && kv.CreateRevision > n.docs.byNode[uid].Revision {
		n.ahead[uid] = kv.ModRevision
	}
}

// reached forgets the entries of ahead that the watch has caught up with.
func (n *Names) reached(revision int64) {
	maps.DeleteFunc(n.ahead, func(_ string, ahead int64) bool { return ahead <= revision })
}

// carryOver keeps what was learned later than the list, which was read at revision.
func (n *Names) carryOver(was *Names, revision int64) {
	keepAhead(n.ahead, was.ahead, revision)
	keepLater(n.incarnations, was.incarnations, revision, ledger.Incarnation.ReadAt)
}

func (n *Names) put(kv ledger.KV, set *changeSet) error {
	i, err := codec.DecodeIncarnation(kv)
	if err != nil || i.Revision <= n.incarnations[i.NodeName].Revision {
		return err
	}
	n.incarnations[i.NodeName] = i
	set.names = append(set.names, i.NodeName)
	return nil
}

func (n *Names) drop(key string, revision int64, set *changeSet) {
	name := strings.TrimPrefix(key, ledger.PrefixIncarnation)
	if i, known := n.incarnations[name]; known && i.Revision < revision {
		delete(n.incarnations, name)
		set.names = append(set.names, name)
	}
}
