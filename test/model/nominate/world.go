package nominate

const (
	maxPods   = 6
	maxNodes  = 3
	maxShards = 2
	maxLog    = 10
)

// scenario is a cluster to explore, and limits how often each event may happen.
type scenario struct {
	// capacity of each node.
	capacity []int
	pods     []spec
	limits
}

// spec is a pod.
type spec struct {
	name string
	// shard places the pod. size is its use of a node; priority decides who preempts whom.
	shard, size, priority int
	// runs is the node (1 is the first) that it is bound to at the start, 0 for none; on are
	// the nodes (bits) that it may go to.
	runs, on uint8
	// blocked are pods (bits), wherever they run, that must be gone before it may run.
	blocked uint8
	// needs are pods (bits) that it may only be placed with, wherever they run.
	needs uint8
	// foreign: another scheduler binds it, to the first of its nodes, regardless of capacity.
	foreign bool
}

// limits are how often things happen.
type limits struct {
	// plans counts nominations and displacements, aborts plans given up.
	plans, aborts uint8
	// deletes are pods deleted by their users.
	deletes uint8
}

// world is a state: the API server, the ledger, and what each shard has read of the facts.
type world struct {
	pods    [maxPods]pod
	entries [maxPods]entry
	claims  [maxPods]claim
	log     [maxLog]fact
	len     uint8
	// hw is each node's high-water: how much of the log one must have read to use it.
	hw        [maxNodes]uint8
	shards    [maxShards]shard
	left      limits
	violation violation
}

// podView is an observer's knowledge of a pod.
type podView struct {
	// node is where it is bound (1 is the first), 0 for nowhere.
	node uint8
	gone bool
}

func (s podView) pending() bool { return s.node == 0 && !s.gone }
func (s podView) on(n int) bool { return !s.gone && int(s.node) == n+1 }

// pod is one pod at the API server.
type pod struct {
	podView
	// since is how much of the log one must have read to know that it is gone.
	since uint8
	// terminating: it has been evicted, and still takes its place.
	terminating bool
	// asked: an eviction may reach the API server, now or at any later time.
	asked bool
	// early is the pod + 1 that it was evicted for before any plan was committed. Only an
	// ablation does that.
	early uint8
	// cause is the pod + 1 whose plan it was evicted for, while that plan lives.
	cause uint8
}

type entryState uint8

const (
	none entryState = iota
	held
	committed
)

// entry is the reservation of a pod. Those of bound pods stay (package reserve is about
// when they may go); the counting rule ignores them.
type entry struct {
	state entryState
	node  uint8
	// victims (bits) are the plan: the pods that have to be gone first.
	victims uint8
	// waited: it has been Held.
	waited bool
}

// claim is the ledger's record of a victim, in the document of the node that it runs on.
type claim struct {
	// by is the pod + 1 whose plan it belongs to, or orphan.
	by uint8
	// sent: the binder has marked it, and may evict from then on.
	sent bool
}

// orphan is the owner of a claim whose plan was given up after the eviction may have been sent.
const orphan = maxPods + 1

type fact struct {
	pod uint8
	podView
}

type shard struct {
	cache [maxPods]podView
	at    uint8
}

// violation is a violation, noticed as it happens.
type violation uint8

const (
	nothing violation = iota
	unclaimed
	unfenced
	unused
	blindly
	alone
	logFull
)

func (w violation) String() string {
	switch w {
	case unclaimed:
		return "a pod was evicted that no plan claims any more"
	case unfenced:
		return "a committed reservation was taken away without a fence"
	case unused:
		return "a place changed hands, and those that had been evicted for it were forgotten"
	case blindly:
		return "a pod was committed to a node that the shard's own facts show full"
	case alone:
		return "a pod was bound after one that it relies on had been evicted"
	case logFull:
		return "the model's log is too short for this scenario"
	}
	return ""
}
