package explain

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// Where is a pod's location and status as the facts show it. The queue returns it for the pod of a question and for
// its siblings.
type Where struct {
	UID, Namespace, Name string
	SchedulerName        string
	Priority             int32
	// Node is the node that the pod is bound to, or empty.
	Node                      string `json:",omitempty"`
	Created                   time.Time
	Gated, Deleting, Terminal bool `json:",omitempty"`
}

// QueueAnswer is the answer of the leading queue.
type QueueAnswer struct {
	// Member is the queue that answers, as of the facts up to FactSequence and the ledger at LedgerRevision.
	Member         string
	FactSequence   uint64
	LedgerRevision int64
	// Known reports whether the facts show the pod.
	Known bool
	Where Where
	// Pool and Reason are as the queue has them; Pool is empty for a pod that is in no pool.
	Pool, Reason string `json:",omitempty"`
	// Since is when the pod entered its pool.
	Since time.Time `json:",omitzero"`
	// Ahead counts the pods that wait for the same shard and are offered before this one; set only in pool active.
	Ahead int `json:",omitempty"`
	// NotBefore is the end of the pod's backoff, zero if it is not in backoff.
	NotBefore time.Time `json:",omitzero"`
	Holder
	Attempts int32
	// Wakes are the rules that rejected the pod, with the events that each listens to.
	Wakes []Wake `json:",omitempty"`
	// Status is the answer to Question.Status.
	Status *QueueStatus `json:",omitempty"`
	// Siblings is the answer to Question.Owner: the owner's pods created since then, oldest first.
	Siblings []Where `json:",omitempty"`
}

// Holder is the partition that a pod belongs to, and the shard that holds the partition, empty for none.
type Holder struct {
	Partition int32
	Shard     string `json:",omitempty"`
}

// Wake is a rule that rejected the pod, and the events that could change the rule's verdict, named as in
// queue_incoming_pods_total.
type Wake struct {
	Plugin string
	Events []string
}

// ShardAnswer is a shard's answer about a pod, a node or a gang.
type ShardAnswer struct {
	Member         string
	FactSequence   uint64
	LedgerRevision int64
	// Status is the answer to Question.Status.
	Status *ShardStatus `json:",omitempty"`
	// Pod answers a question about a pod, Node one about a node, Gang one about a gang.
	Pod  *PodView  `json:",omitempty"`
	Node *NodeView `json:",omitempty"`
	Gang *GangView `json:",omitempty"`
}

// PodView is a pod as a shard's next decision would see it: an evaluation of all nodes, for a pod that has no node,
// and the ledger's entries about it.
type PodView struct {
	// Failed explains why the nodes could not be evaluated; the answer then lists no nodes.
	Failed string `json:",omitempty"`
	// Nodes is the number of nodes, Behind the number of those that cannot be used until the facts about them
	// arrive.
	Nodes, Behind int
	placement.Explanation
	// Promise is the ledger's entry for the pod, and Claim the entry that makes it a victim for another pod; nil
	// for none.
	Promise *LedgerEntry `json:",omitempty"`
	Claim   *LedgerEntry `json:",omitempty"`
	// Victims are the pods claimed as victims for this pod.
	Victims []LedgerEntry `json:",omitempty"`
}

// LedgerEntry is one entry of the ledger.
type LedgerEntry struct {
	Pod, UID, Node string
	// Role is reservation, victim, keeper or move; State is held, committed, fencing or evicting.
	Role, State string
	Shard       string `json:",omitempty"`
	Plan        string `json:",omitempty"`
	// For is the pod that a victim is evicted for.
	For string `json:",omitempty"`
}

// NodeView is a node with its usage as a shard counts it: the pods that are bound to it, those with a reservation, and
// none of those that have ended.
type NodeView struct {
	Name, UID string
	Pods      int
	Resources []Amount
	Taints    []string `json:",omitempty"`
	// Cordoned is spec.unschedulable.
	Cordoned bool `json:",omitempty"`
	// Marks are the words of the marks that Berth has written for cluster autoscalers (package nodemark).
	Marks string `json:",omitempty"`
	// Unusable explains why the shard does not use the node at present; empty if it does.
	Unusable string `json:",omitempty"`
	// Promises are the entries of the node's document in the ledger.
	Promises []LedgerEntry `json:",omitempty"`
	// Standing are the pods that count on the node, by priority, highest first.
	Standing []NodePod `json:",omitempty"`
}

// Amount is one resource of a node, in milli-CPU, bytes, or the resource's own unit.
type Amount struct {
	Name              string
	Allocatable, Used int64
}

// NodePod is a pod that counts on a node.
type NodePod struct {
	Pod      string
	Priority int32
	Requests map[string]int64 `json:",omitempty"`
	// Reserved reports that the pod is not bound to the node yet.
	Reserved bool `json:",omitempty"`
}
