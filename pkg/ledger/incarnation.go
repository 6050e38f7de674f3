package ledger

import (
	"fmt"
	"strings"

	"github.com/berth-scheduler/berth/pkg/ledger/ledgerpb"
)

// Incarnation names the node that a node name stands for: incarnation/<name>, at one revision. A node that is
// deleted and registers again is another node (another UID, another document) under the same name, and pods are
// bound by name. So one document at a time allocates the room of a name: that of the incarnation.
//
// A document is created only together with the incarnation of its name (Replace, at Revision 0). Another node
// follows under the name only through AdmitNode, which moves every document of the name. From then on nothing is
// added to the documents of the earlier nodes.
type Incarnation struct {
	NodeName, NodeUID string
	// NodeRV is a resourceVersion of that node. Of two nodes with one name, the later one has the higher
	// resourceVersions.
	NodeRV uint64
	// Revision is the mod revision it was read at; 0 when it does not exist.
	Revision int64
}

// EncodeIncarnation encodes the value of incarnation/<node name>.
func EncodeIncarnation(i Incarnation) ([]byte, error) {
	if i.NodeUID == "" {
		return nil, fmt.Errorf("ledger: incarnation of node name %q has no node UID", i.NodeName)
	}
	return marshal(&ledgerpb.Incarnation{Version: SchemaVersion, NodeUid: i.NodeUID, NodeResourceVersion: i.NodeRV})
}

// DecodeIncarnation decodes incarnation/<node name> as stored.
func DecodeIncarnation(kv KV) (Incarnation, error) {
	var m ledgerpb.Incarnation
	err := unmarshal(kv.Value, &m, m.GetVersion)
	if err == nil && m.GetNodeUid() == "" {
		err = fmt.Errorf("no node UID")
	}
	if err != nil {
		return Incarnation{}, fmt.Errorf("ledger: key %s at revision %d: %w", kv.Key, kv.ModRevision, err)
	}
	return Incarnation{
		NodeName: strings.TrimPrefix(kv.Key, PrefixIncarnation), NodeUID: m.GetNodeUid(),
		NodeRV: m.GetNodeResourceVersion(), Revision: kv.ModRevision,
	}, nil
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

// superseded refuses to add a pod to the document of a node whose name now stands for another node.
func (d NodeDoc) superseded(podUID string) error {
	return &RefusedError{Step: "placement", NodeUID: d.NodeUID, PodUID: podUID,
		Reason: "node name " + d.NodeName + " stands for another node, " + d.SupersededBy}
}
