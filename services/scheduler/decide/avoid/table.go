package avoid

import (
	"iter"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-scheduler/berth/pkg/ledger"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Cluster is the part of the view that a Table reads.
type Cluster interface {
	Node(uid string) (*state.NodeInfo, bool)
	Nodes() []*state.NodeInfo
	Pod(uid string) (*state.Pod, bool)
	Snapshot() *state.Snapshot
}

// Reservations returns the documents in which the ledger has a reservation of a pod, by UID.
type Reservations func(podUID string) iter.Seq2[ledger.NodeDoc, ledger.Entry]

// Table records which nodes are avoided, why, and until when.
type Table struct {
	// gate is set when a node begins or ceases to be avoided; cluster and placed are read.
	gate    *Gate
	cluster Cluster
	placed  Reservations
	// nodes are avoided by all pods, for Quarantine and Doubt, by node UID.
	nodes [Turn]map[string]*row
	// owners are workloads, with the nodes that their pods avoid, by node UID.
	owners  map[string]map[string]*pause
	ended   endedReservations
	notices []Notice
	// eased: a node is not avoided any more.
	eased bool
}

// row is the state of one node that is or was avoided for one reason.
type row struct {
	pause
	// active: it is avoided.
	active bool
	name   string
	// conflicts are disagreements about it that have not led to a quarantine.
	conflicts []conflict
}

// rules are the limits of a reason: its backoff, and the share of nodes: at most one in share, in clusters of at
// least from nodes.
var rules = [Turn]struct {
	backoff
	share, from int
}{
	Quarantine: {backoff{first: time.Minute, most: 10 * time.Minute, forgets: 30 * time.Minute}, 20, 4},
	// A kubelet counts a pod until its containers are gone (30 s of grace by default), and needs some seconds to
	// report a change in its status.
	Doubt: {backoff{first: 10 * time.Second, most: 5 * time.Minute, forgets: 15 * time.Minute}, 10, 2},
}

// ownerBackoff is how long the pods of an owner avoid a node.
var ownerBackoff = backoff{first: 30 * time.Second, most: 10 * time.Minute, forgets: 30 * time.Minute}

const (
	// maxOwners bounds the workloads that avoid nodes, and maxPerOwner the nodes of each; beyond that, those whose
	// rejection is the oldest are forgotten.
	maxOwners   = 1024
	maxPerOwner = 16
)

// Notice is an event about a node that people should know of.
type Notice struct {
	Node string
	What NoticeKind
	// Detail is a sentence about it, without the node's name.
	Detail string
}

// NoticeKind is the kind of a Notice.
type NoticeKind string

// The kinds of notices.
const (
	Quarantined     NoticeKind = "quarantined"
	QuarantineEnded NoticeKind = "quarantine-ended"
	// QuarantineRefused: it should be in quarantine, but is not, because too many nodes are.
	QuarantineRefused NoticeKind = "spared"
	// Doubted: its kubelet found less room than the facts show.
	Doubted NoticeKind = "doubted"
	// Avoided: its kubelet rejected a pod, and the pods of the same owner avoid it.
	Avoided NoticeKind = "avoided"
)

// NewTable returns a table that avoids nothing.
func NewTable(g *Gate, c Cluster, placed Reservations) *Table {
	t := &Table{gate: g, cluster: c, placed: placed, owners: map[string]map[string]*pause{}}
	for r := range t.nodes {
		t.nodes[r] = map[string]*row{}
	}
	return t
}

// Begin makes all pods avoid a node for a reason; End ends that. Both may be repeated.
func (t *Table) Begin(nodeUID string, r Reason) {
	t.gate.avoided[nodeUID] |= 1 << r
	t.apply(nodeUID)
}

// End ends what Begin has started.
func (t *Table) End(nodeUID string, r Reason) {
	if because := t.gate.avoided[nodeUID] &^ (1 << r); because == 0 {
		delete(t.gate.avoided, nodeUID)
	} else {
		t.gate.avoided[nodeUID] = because
	}
	t.apply(nodeUID)
	t.eased = true
}

// SetAvoided makes all pods avoid exactly these nodes.
func (t *Table) SetAvoided(nodeUIDs []string) {
	for uid := range t.gate.avoided {
		delete(t.gate.avoided, uid)
		t.apply(uid)
	}
	for _, uid := range nodeUIDs {
		t.Begin(uid, Quarantine)
	}
}

// apply sets in the engine whether a node may be used.
func (t *Table) apply(nodeUID string) {
	if n, ok := t.cluster.Node(nodeUID); ok {
		t.gate.set(n)
	}
}

// Counts returns how many nodes all pods avoid, by the label of the reason. Every reason is in the map.
func (t *Table) Counts() map[string]int {
	counts := make(map[string]int, reasons)
	for r := range reasons {
		counts[r.Label()] = 0
		for _, because := range t.gate.avoided {
			if because.has(r) {
				counts[r.Label()]++
			}
		}
	}
	return counts
}

// Eased reports whether a node has ceased to be avoided since the last call.
func (t *Table) Eased() bool {
	eased := t.eased
	t.eased = false
	return eased
}

// Notices returns the notices since the last call.
func (t *Table) Notices() []Notice {
	notices := t.notices
	t.notices = nil
	return notices
}

// notice adds a notice.
func (t *Table) notice(node string, what NoticeKind, detail string) {
	t.notices = append(t.notices, Notice{Node: node, What: what, Detail: detail})
}

// full reports whether a reason has reached its share of the nodes, or the cluster is too small for any; active is
// how many nodes it has.
func (t *Table) full(r Reason) (active, nodes int, full bool) {
	for _, row := range t.nodes[r] {
		if row.active {
			active++
		}
	}
	nodes = len(t.cluster.Nodes())
	return active, nodes, nodes < rules[r].from || active >= max(1, nodes/rules[r].share)
}

// AvoidedBy returns the UIDs of the nodes that a pod must not be placed on now because of its owner, sorted.
func (t *Table) AvoidedBy(pod *state.Pod, now time.Time) []string {
	if len(t.owners) == 0 {
		return nil
	}
	var uids []string
	for uid, p := range t.owners[Workload(pod)] {
		if p.on(now) {
			uids = append(uids, uid)
		}
	}
	slices.Sort(uids)
	return uids
}

// Workload returns a key for the origin of the next pod when one has failed: the pod's controller or, without one,
// the namespace and name of the pod. The key of a controller includes the namespace of its pods, because any client
// that creates pods chooses the UID in the owner reference.
func Workload(pod *state.Pod) string {
	if owner := metav1.GetControllerOfNoCopy(pod.Template); owner != nil {
		return pod.Namespace + "/" + string(owner.UID)
	}
	return pod.Key()
}

// Expire ends what has lasted long enough, and forgets old entries. It is called at every heartbeat.
func (t *Table) Expire(now time.Time) {
	for r, nodes := range t.nodes {
		for _, uid := range slices.Sorted(maps.Keys(nodes)) {
			row := nodes[uid]
			if row.on(now) {
				continue
			}
			t.end(uid, Reason(r))
			if row.idle(now) && row.over(now, rules[r].backoff) {
				delete(nodes, uid)
			}
		}
	}
	for owner, nodes := range t.owners {
		maps.DeleteFunc(nodes, func(_ string, p *pause) bool { return p.over(now, ownerBackoff) })
		if len(nodes) == 0 {
			delete(t.owners, owner)
		}
	}
}

// end ends the avoidance of a node for a reason, if it is active.
func (t *Table) end(nodeUID string, r Reason) {
	row, known := t.nodes[r][nodeUID]
	if !known || !row.active {
		return
	}
	row.active = false
	t.End(nodeUID, r)
	if r == Quarantine {
		t.notice(row.name, QuarantineEnded, "it is used again")
	}
}

// row returns the row of a node, a new one if there is none.
func (t *Table) row(nodeUID, name string, r Reason) *row {
	known := t.nodes[r][nodeUID]
	if known == nil {
		known = &row{name: name}
		t.nodes[r][nodeUID] = known
	}
	return known
}
