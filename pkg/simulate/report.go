package simulate

// Report lists what would happen. Each list is in the order in which it would. It is the output of `berth simulate -o
// json`.
type Report struct {
	// Facts is the sequence of the facts, and Ledger the revision of the ledger, that the simulation starts from; 0
	// if nothing is known of the ledger.
	Facts  uint64 `json:"facts"`
	Ledger int64  `json:"ledger"`
	// Nodes and Pods are the numbers after the changes.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Changes describes the simulated changes, in words.
	Changes []string `json:"changes,omitempty"`
	// Unasked is the number of tried pods that extenders or custom plugins have a say in. They were decided by the
	// rules alone.
	Unasked int `json:"unasked,omitempty"`
	// Evicted are the pods that must be evicted; Kept are those that were to be evicted and stay.
	Evicted []Eviction `json:"evicted,omitempty"`
	Kept    []Eviction `json:"kept,omitempty"`
	Placed  []Placed   `json:"placed,omitempty"`
	Pending []Pending  `json:"pending,omitempty"`
}

// Eviction is a pod that is evicted, or that stays although it was to be evicted.
type Eviction struct {
	// Pod is "namespace/name".
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// By is the cause: "drain", "node removal", "preemption", or the strategy.
	By string `json:"by"`
	// Why gives details; for Kept, the reason why the pod stays.
	Why string `json:"why,omitempty"`
}

// Placed is a pod that gets a place.
type Placed struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Replaces is the node that the replaced pod had to leave; empty for a pod that was waiting.
	Replaces string `json:"replaces,omitempty"`
	// Feasible is the number of feasible nodes; 0 where other pods had to be evicted for it.
	Feasible int `json:"feasible"`
}

// Pending is a pod that gets no place.
type Pending struct {
	Pod      string `json:"pod"`
	Replaces string `json:"replaces,omitempty"`
	Why      string `json:"why"`
}
