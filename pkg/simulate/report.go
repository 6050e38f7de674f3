package simulate

// Report is what would happen, in the order in which it would.
type Report struct {
	// Facts is the sequence of the facts, and Ledger the revision of the ledger, that it begins from;
	// 0 if nothing is known of the ledger.
	Facts  uint64 `json:"facts"`
	Ledger int64  `json:"ledger"`
	// Nodes and Pods are how many there are after the changes.
	Nodes int `json:"nodes"`
	Pods  int `json:"pods"`
	// Changes are what is otherwise, in words.
	Changes []string `json:"changes,omitempty"`
	// Unasked is how many of the pods that were tried extenders or custom plugins have a say in. They were decided
	// by the rules alone.
	Unasked int `json:"unasked,omitempty"`
	// Evicted are those that have to go, Kept those that were to go and stay.
	Evicted []Eviction `json:"evicted,omitempty"`
	Kept    []Eviction `json:"kept,omitempty"`
	Placed  []Placed   `json:"placed,omitempty"`
	Pending []Pending  `json:"pending,omitempty"`
}

// Eviction is a pod that goes, or stays although it was to go.
type Eviction struct {
	// Pod is "namespace/name".
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// By is what it goes for: "drain", "removal of the node", "preemption", or the strategy.
	By string `json:"by"`
	// Why says more; for Kept what stands against it.
	Why string `json:"why,omitempty"`
}

// Placed is a pod that gets a place.
type Placed struct {
	Pod  string `json:"pod"`
	Node string `json:"node"`
	// Replaces is the node that the pod which it replaces had to leave; empty for one that waited.
	Replaces string `json:"replaces,omitempty"`
	// Feasible is how many nodes could take it; 0 where others had to go for it.
	Feasible int `json:"feasible"`
}

// Pending is a pod that gets none.
type Pending struct {
	Pod      string `json:"pod"`
	Replaces string `json:"replaces,omitempty"`
	Why      string `json:"why"`
}
