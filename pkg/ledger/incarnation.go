package ledger

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

// DocKey returns the key of the document.
func (i Incarnation) DocKey() string { return KeyIncarnation(i.NodeName) }

// ReadAt returns the revision that the document was read at, 0 if it does not exist.
func (i Incarnation) ReadAt() int64 { return i.Revision }

// Blank returns the document in the form that stands for one that does not exist.
func (i Incarnation) Blank() Incarnation { return Incarnation{NodeName: i.NodeName} }
