package ledger

import (
	"fmt"
	"strconv"
	"strings"
)

// Keys, relative to the cluster's prefix.
const (
	// PrefixOwn + partition (3 digits): Owner of that pod partition, on the member's lease.
	PrefixOwn = "own/"
	// PrefixWant + partition (3 digits): Owner, the member that should hold the partition instead of the one that
	// the hash of both selects. It grants nothing.
	PrefixWant = "want/"
	// PrefixNode + node UID: NodeDoc.
	PrefixNode = "n/"
	// PrefixIncarnation + node name: Incarnation, the node of that name on which placements are made.
	PrefixIncarnation = "incarnation/"
	// KeyFloor is the Floor: the high-waters of documents that do not exist.
	KeyFloor = "floor"
	// PrefixMember + role + "/" + member id: Member, on the member's lease.
	PrefixMember = "member/"
	// KeyCluster names the Kubernetes cluster this ledger belongs to (UID of its
	// kube-system namespace), written once by the first queue that leads.
	KeyCluster = "cluster"
	// KeyGeneration holds the Generation: which ledger this is, and whether members may act on it.
	KeyGeneration = "generation"
	// KeyPause holds a Pause while the descheduler must not ask for evictions.
	KeyPause = "pause/descheduler"
	// KeyTermRegistry is the registry of terms: hard rules about pods on other nodes. Every
	// placement compares it.
	KeyTermRegistry = "t/reg"
	// PrefixTerm + term id: RegisteredTerm.
	PrefixTerm = "t/"
	// PrefixGuard + term id + "/" + domain + "/" + part: a guard, of which only the revision matters.
	PrefixGuard = "g/"
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

// KeyOwn is the key of one partition's owner.
func KeyOwn(partition int32) string { return fmt.Sprintf("%s%03d", PrefixOwn, partition) }

// ParseOwn is the inverse of KeyOwn.
func ParseOwn(key string) (partition int32, ok bool) { return parsePartition(key, PrefixOwn) }

// KeyWant is the key that names the shard that should hold a partition.
func KeyWant(partition int32) string { return fmt.Sprintf("%s%03d", PrefixWant, partition) }

// ParseWant is the inverse of KeyWant.
func ParseWant(key string) (partition int32, ok bool) { return parsePartition(key, PrefixWant) }

func parsePartition(key, prefix string) (partition int32, ok bool) {
	rest, ok := strings.CutPrefix(key, prefix)
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(rest, 10, 31)
	if err != nil || n >= Partitions || len(rest) != 3 {
		return 0, false
	}
	return int32(n), true //nolint:gosec // below Partitions
}

// KeyNode is the key of a node's document.
func KeyNode(nodeUID string) string { return PrefixNode + nodeUID }

// KeyIncarnation is the key of a node name's incarnation.
func KeyIncarnation(nodeName string) string { return PrefixIncarnation + nodeName }

// KeyMember is the key under which a member registers itself.
func KeyMember(role, id string) string { return PrefixMember + role + "/" + id }

// PrefixElection + name + "/" + candidate: one candidate of an election, on its lease. The
// oldest leads; its create revision is the term.
const PrefixElection = "election/"
