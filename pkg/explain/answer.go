package explain

import (
	"time"

	"github.com/berth-scheduler/berth/pkg/placement"
)

// Where is where the facts show a pod.
type Where struct {
	UID, Namespace, Name string
	SchedulerName        string
	Priority             int32
	// Node is where it is bound, or empty.
	Node                      string `json:",omitempty"`
	Created                   time.Time
	Gated, Deleting, Terminal bool `json:",omitempty"`
}

// QueueAnswer is what the queue that leads has to say.
type QueueAnswer struct {
	// Member answers, as of the facts up to this sequence and the ledger at this revision.
	Member         string
	FactSequence   uint64
	LedgerRevision int64
	// Known: the facts show the pod.
	Known bool
	Where Where
	// Pool and Reason are the queue's; Pool is empty for a pod that is in none.
	Pool, Reason string `json:",omitempty"`
	// Since is when the pod came into its pool.
	Since time.Time `json:",omitzero"`
	// Ahead counts the pods that are offered before it, of those that wait for the same shard;
	// only in pool active.
	Ahead int `json:",omitempty"`
	// NotBefore is the end of its backoff, zero outside of it.
	NotBefore time.Time `json:",omitzero"`
	Holder
	Attempts int32
	// Wakes are the rules that rejected the pod, with the events that each listens to.
	Wakes []Wake `json:",omitempty"`
	// Status answers Question.Status.
	Status *QueueStatus `json:",omitempty"`
	// Siblings answers Question.Owner: those created since then, oldest first.
	Siblings []Where `json:",omitempty"`
}

// Holder is the partition that a pod belongs to, and the shard that holds that, empty for none.
type Holder struct {
	Partition int32
	Shard     string `json:",omitempty"`
}

// Wake is a rule whose no has to turn, and the events that could do that, in the words of
// queue_incoming_pods_total.
type Wake struct {
	Plugin string
	Events []string
}

// ShardAnswer is what a shard has to say about a pod or a node.
type ShardAnswer struct {
	Member         string
	FactSequence   uint64
	LedgerRevision int64
	// Status answers Question.Status.
	Status *ShardStatus `json:",omitempty"`
	// Pod is about the pod that was asked about, Node about the node.
	Pod  *PodView  `json:",omitempty"`
	Node *NodeView `json:",omitempty"`
}

// PodView is a pod as a shard's next decision would see it.
type PodView struct {
	// Failed says why the nodes cannot be told; then there are none.
	Failed string `json:",omitempty"`
	// Nodes is how many there are, Behind how many of them cannot be used until the facts about
	// them are there.
	Nodes, Behind int
	placement.Explanation
	// Promise is what the ledger holds for the pod, and Claim that it has to go for another;
	// nil for nothing.
	Promise *Promise `json:",omitempty"`
	Claim   *Promise `json:",omitempty"`
	// Victims are claimed for the pod.
	Victims []Promise `json:",omitempty"`
}

// Promise is one entry of the ledger.
type Promise struct {
	Pod, UID, Node string
	// Role is reservation, victim, keeper or move; State held, committed, fencing or evicting.
	Role, State string
	Shard       string `json:",omitempty"`
	Plan        string `json:",omitempty"`
	// For is the pod that a victim goes for.
	For string `json:",omitempty"`
}

// NodeView is a node as a shard counts it.
type NodeView struct {
	Name, UID string
	Pods      int
	Resources []Amount
	Taints    []string `json:",omitempty"`
	// Cordoned is spec.unschedulable.
	Cordoned bool `json:",omitempty"`
	// Unusable says why the shard does not use the node now; empty if it does.
	Unusable string `json:",omitempty"`
	// Promises are the entries of the ledger's document of the node.
	Promises []Promise `json:",omitempty"`
	// Standing are the pods that count on it, by priority, highest first.
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
	// Reserved: it is not bound there yet.
	Reserved bool `json:",omitempty"`
}
