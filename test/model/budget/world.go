package budget

const (
	maxPods = 4
	// components claim evictions: scheduler shards for preemptors, the descheduler for moves.
	components = 2
	// maxRequests bounds the evictions of one pod that are on their way at once.
	maxRequests = 3
)

// scenario is one disruption budget with its pods, and limits how often each event may happen.
type scenario struct {
	// pods run at the start, healthy; desired is how many of them the budget wants to stay.
	pods, desired int
	limits
	// counts: components do not rely on the budget's status alone, but count the pods too.
	counts bool
}

// limits are how often things happen.
type limits struct {
	claims uint8
	// sends are evictions sent, the first of each victim and those sent again.
	sends uint8
	// drops are claims given up.
	drops uint8
	// timeouts are entries of the budget's status that the disruption controller gives up
	// waiting for (after two minutes) although their pod still runs.
	timeouts uint8
	// swaps are pods replaced by another one of the same name.
	swaps uint8
	// foreign are evictions that another client sends.
	foreign uint8
}

// world is a state.
type world struct {
	rev    uint8
	pods   [maxPods]pod
	status status
	// hw is the high-water of the budget's document in the ledger; its claims are with the pods.
	hw        uint8
	views     [components]view
	left      limits
	violation violation
}

// pod is one pod that the budget covers, and all that is known and under way about it.
type pod struct {
	// leaving is the resourceVersion of its deletion, 0 while it runs. (Terminating or gone is
	// the same to a budget.)
	leaving uint8
	// swapped: the pod that was claimed is gone, and another one of its name runs.
	swapped bool
	// disrupted: the budget's status has it among the pods about to go.
	disrupted bool
	// controller: the disruption controller has seen it leave. seen: components have (bits).
	controller bool
	seen       uint8
	claim      claim
	requests
}

// claim is a claim on the budget for one victim.
type claim struct {
	// by is the component + 1, 0 for no claim.
	by uint8
	// evicting: the binder has marked it, and may send from then on.
	evicting bool
	// unknown: the outcome of an eviction that was sent is unknown to the binder. refused: the last one was refused
	// for lack of budget. replaced: the API server has reported that the pod of this name is another one now.
	unknown, refused, replaced bool
}

// requests are evictions of one pod at the API server.
type requests struct {
	// sent have not been processed. spent have taken from the budget and are about to delete the pod. late are those
	// of both that the binder sent although the API server had reported another pod.
	sent, spent, late uint8
	// foreign: one of those sent comes from another client.
	foreign uint8
}

// status of the disruption budget; its map is with the pods.
type status struct{ allowed uint8 }

// view is how far a component has read: the status of the budget as of progress; the pods, with those that are
// leaving (pod.seen), as of pods.
type view struct{ allowed, progress, pods uint8 }

// violation is a violation, noticed as it happens.
type violation uint8

const (
	nothing violation = iota
	burnt
)

func (w violation) String() string {
	if w == burnt {
		return "budget was spent again on a pod that the API server had said is another one"
	}
	return ""
}
