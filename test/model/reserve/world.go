package reserve

// The size of the largest cluster. States are values, so everything has a fixed size.
const (
	maxPods   = 3
	maxNodes  = 2
	maxShards = 3
	maxLog    = 14
)

// scenario is a cluster to explore, and limits how often each event may happen.
type scenario struct {
	nodes, capacity int
	// owner is the shard that places each pod.
	owner []int
	limits
	// apart: a placement is decided at one time and committed at any later one. Otherwise the two are one step, which
	// loses no history as long as the commit compares the document that the decision used; scenarios with apart show
	// that it does.
	apart bool
}

// limits are how often things happen. What is not limited here happens as often as it can:
// hand-overs, and binds, which are sent, repeated, delayed and lost at will.
type limits struct {
	placements uint8
	// fences counts marks and, once one has died, the changes made again.
	fences uint8
	// updates are changes of a pod by others, which move its resourceVersion.
	updates uint8
	deletes uint8
	// outages are times without a leader of the facts' log: any number of records at its end
	// may be lost, and the next leader lists the pods again.
	outages uint8
}

// world is a state: what the API server and the ledger hold, the log between the API server
// and the shards, and what each shard has made of it.
type world struct {
	// rev is the API server's last resourceVersion.
	rev       uint8
	pods      [maxPods]pod
	docs      [maxNodes]doc
	log       factLog
	shards    [maxShards]shard
	left      limits
	violation violation
}

// podView is an observer's knowledge of a pod. Every observer knows all pods from the start.
type podView struct {
	// node is where it is bound (1 is the first), 0 for nowhere.
	node uint8
	gone bool
	rv   uint8
}

func (s podView) pending() bool { return s.node == 0 && !s.gone }
func (s podView) on(n int) bool { return !s.gone && int(s.node) == n+1 }

// pod is one pod at the API server, and the work for it that is on its way.
type pod struct {
	podView
	// since is the lowest resourceVersion that shows that the pod needs no entry any more: that of its bind or, never
	// bound, its deletion.
	since uint8
	// asked are the nodes (bits) for which a bind with the pod's present resourceVersion may
	// reach the API server, now or at any later time, any number of times. Those with an
	// older one cannot succeed, and are forgotten.
	asked uint8
	// placed are the nodes where it has ever had an entry. Only ablations look at it.
	placed uint8
	// pick is the node (1 is the first) that its shard has decided on and not committed yet,
	// pickRV the pod's resourceVersion as it was decided on.
	pick, pickRV uint8
}

// doc is one node's document. Its revision is not needed: see scenario.apart.
type doc struct {
	entries [maxPods]entry
	hw      uint8
}

type entryState uint8

const (
	none entryState = iota
	committed
	fencing
)

// entry is a reservation, and what the binder that fences it has seen.
type entry struct {
	state entryState
	// changed is the resourceVersion of the fence's change of the pod, 0 before it is made;
	// bound reports whether that showed the pod bound. The binder knows it, not the ledger.
	changed uint8
	bound   bool
}

// shard is one shard's knowledge of the API server.
type shard struct {
	cache [maxPods]podView
	// at is how many records of the log it has read. beyond: they are more than the log has
	// had since, because its end was lost.
	at     uint8
	beyond bool
	// progress is the resourceVersion up to which it has every fact; blind: not now.
	progress uint8
	blind    bool
	// docs are the documents as it has read them, for the ablation that does not compare them.
	docs [maxNodes]read
}

// read is a document as one shard has read it.
type read struct{ entries, hw uint8 }

// violation is a violation.
type violation uint8

const (
	nothing violation = iota
	overcommitted
	boundAfterRelease
	logFull
)

func (w violation) String() string {
	switch w {
	case overcommitted:
		return "a node has more pods, bound or about to be, than it has room for"
	case boundAfterRelease:
		return "a pod was bound without a reservation"
	case logFull:
		return "the model's log is too short for this scenario"
	}
	return ""
}
