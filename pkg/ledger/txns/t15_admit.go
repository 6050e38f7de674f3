package txns

import "github.com/berth-scheduler/berth/pkg/ledger"

// AdmitNode is T15 (admit): a node becomes the incarnation of its name. It is needed where another node had the
// name before, or where the name's documents predate incarnations. A node whose name is new is admitted with its
// first document (Replace).
type AdmitNode struct {
	NodeUID, NodeName string
	// NodeRV is the node's resourceVersion in the admitting member's facts.
	NodeRV uint64
	// Known is the incarnation as read; its Revision is 0 if there is none.
	Known ledger.Incarnation
	// Docs are all documents of the name, as read: Names.Docs.
	Docs []ledger.NodeDoc
	// Floor as read: a document of the name may have been collected.
	Floor ledger.Floor
}

// Admit builds T15. The documents of the earlier nodes are marked superseded, so that every decision made on them
// loses, and nothing is added to them any more. Their promises continue to count, because they are counted by the
// node's name, and are released as always. The document of the admitted node starts with their high-waters, and
// those of the floor.
//
// Compares: incarnation/<name>.ModRevision, floor, n/<uid>.ModRevision of every document of the name and of the
// admitted node. Puts: the incarnation, the documents. A crash before it leaves a node on which nothing is placed;
// after it no step is left to do. *RefusedError if the name stands for a later node.
func (a AdmitNode) Admit() (Change, error) {
	later := a.Known.NodeUID
	if a.Known.NodeUID == a.NodeUID || a.Known.NodeRV < a.NodeRV {
		later = ""
	}
	c := Change{Incarnations: []ledger.Incarnation{{
		NodeName: a.NodeName, NodeUID: a.NodeUID, NodeRV: a.NodeRV, Revision: a.Known.Revision,
	}}}
	admitted := ledger.NodeDoc{NodeUID: a.NodeUID, NodeName: a.NodeName}
	hw := a.Floor.Of(ledger.KindPod, ledger.KindClaim)
	for _, d := range a.Docs {
		hw = raisedTo(hw, d.HW)
		if d.NodeUID == a.NodeUID {
			admitted = d
			continue
		}
		if d.HW[ledger.KindNode] > a.NodeRV {
			later = d.NodeUID
		}
		d = d.Cover(ledger.KindNode, a.NodeRV)
		d.SupersededBy = a.NodeUID
		c.Docs = append(c.Docs, d)
	}
	if later != "" {
		return Change{}, &RefusedError{Step: "T15 admit", NodeUID: a.NodeUID,
			Reason: "node name " + a.NodeName + " stands for a later node, " + later}
	}
	admitted.HW = ledger.Raised(hw, ledger.KindNode, a.NodeRV)
	admitted.SupersededBy = ""
	admitted.Floor = a.Floor.Revision
	c.Docs = append(c.Docs, admitted)
	return c, nil
}

// raisedTo returns hw, changed in place, with every kind at least as high as in other.
func raisedTo(hw, other map[string]uint64) map[string]uint64 {
	for kind, rv := range other {
		hw = ledger.Raised(hw, kind, rv)
	}
	return hw
}
