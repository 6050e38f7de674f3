package ledger

// Keys, relative to the cluster's prefix.
const (
	// PrefixNode + node UID: NodeDoc.
	PrefixNode = "n/"
	// PrefixIncarnation + node name: Incarnation, the node of that name on which placements are made.
	PrefixIncarnation = "incarnation/"
	// KeyFloor is the Floor: the high-waters of documents that do not exist.
	KeyFloor = "floor"
	// PrefixBudget + PodDisruptionBudget UID: BudgetDoc.
	PrefixBudget = "b/"
	// PrefixVolume + namespace + "/" + PersistentVolumeClaim name, PrefixVolume + PersistentVolumeClaim UID, and
	// PrefixPool + driver + "/" + pool: ExclusiveDoc.
	PrefixVolume = "x/vol/"
	PrefixPool   = "x/pool/"
	// PrefixPlan + id: PlanRecord, of plans larger than one transaction.
	PrefixPlan = "plan/"
)

// Partitions is the number of pod partitions; a constant of the data format.
const Partitions = 256

// KeyNode is the key of a node's document.
func KeyNode(nodeUID string) string { return PrefixNode + nodeUID }

// KeyIncarnation is the key of a node name's incarnation.
func KeyIncarnation(nodeName string) string { return PrefixIncarnation + nodeName }
