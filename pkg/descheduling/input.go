package descheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/descheduling/policy"
)

// Input is everything a run depends on. Equal inputs give equal outcomes.
type Input struct {
	Cluster Cluster
	Policy  *policy.Policy
	// Usage is the actual utilisation, for strategies that need it.
	Usage Usage
	// Now is the time that ages of pods are measured against.
	Now time.Time
	// Upstream decides exactly as sigs.k8s.io/descheduler v0.36 would.
	Upstream bool
	// Kept, if set, is called for every candidate that stays, with the reason. It also makes strategies that judge
	// nodes record their judgements (StrategyReport.Nodes), which costs a string per node.
	Kept func(Candidate, Refusal)
	// Timed, if set, is called when a strategy begins; the function that it returns is called when the strategy has
	// ended.
	Timed func(profile, strategy string) (ended func())
}

// Usage is actual utilisation, which strategies may use instead of requests. The zero value has none, so that
// strategies which need some fail with an error of their own; the other strategies run.
type Usage struct {
	// Nodes and Pods are those of metrics.k8s.io: by node name, and by "namespace/name"; cpu in milli, memory in
	// bytes.
	Nodes, Pods map[string]map[corev1.ResourceName]int64
	// Unmeasured explains why no data of metrics.k8s.io is available; nil if there is some.
	Unmeasured error
	// Queries holds the results of Prometheus queries: by query and node name, from 0 to 1.
	Queries map[string]map[string]float64
	// Failed holds the queries that failed, with the error.
	Failed map[string]error
}

// Candidate is a pod that a strategy would evict. It is passed by value, and the functions in it read the state of
// the run at the time of the call: they are valid only during the Offer that they are passed to.
type Candidate struct {
	Pod *Pod
	// Profile and Strategy are those that picked it.
	Profile, Strategy string
	// Reason explains it to people: "taint gpu:NoSchedule of node a is not tolerated".
	Reason string
	// Better reports whether the strategy would accept the pod's replacement on a node, by name, in the current
	// state. nil means that any node that can take it is acceptable.
	Better func(node string) bool
	// Best reports whether a node that is better creates no work for other strategies; nil if no strategy has
	// concerns.
	Best func(node string) bool
}

// Verdict is the result for a candidate. It is derived from the refusal (see pass.propose), so that strategies need
// not know the refusals that end a node or a run.
type Verdict uint8

const (
	// Kept: the pod stays; the strategy continues.
	Kept Verdict = iota
	// Accepted: the pod will be evicted, as far as this run is concerned.
	Accepted
	// NodeDone: no more pods may be evicted from the candidate's node.
	NodeDone
	// Done: no more pods may be evicted at all.
	Done
)

// Offer decides about one candidate that no protection covers. It returns the reason against it, or nothing, and
// the node where the replacement is expected, if it searched for one. It is called in the order in which strategies
// pick.
type Offer func(Candidate, *Guard) (landing string, against Refusal)

// Refused identifies a pod that a strategy of a profile picked and that stays, for counting. It is a key of a map:
// its fields are the labels of the descheduler's metric.
type Refused struct {
	Profile, Strategy, Namespace, Node string
	Reason                             Refusal
}

// Outcome is the result of a run, in addition to what Offer accepted. One pod may be in it several times, because
// each strategy that picks it counts.
type Outcome struct {
	// Refused counts the pods that stay, by the strategy that picked them and the reason.
	Refused map[Refused]int
	// Nodes is how many nodes were considered; Picked is how many pods the strategies picked.
	Nodes, Picked int
	// Skipped explains why there was no run; empty if there was one.
	Skipped string
	// Failed holds the strategies that could not run, with the reason.
	Failed []Failure
	// Reports holds the report of each strategy, in the order in which they ran.
	Reports []StrategyReport
}

// Failure is a strategy that could not run, because its source of utilisation had no data. The other strategies
// ran.
type Failure struct {
	Profile, Strategy string
	Err               error
}

// StrategyReport is the report of one strategy of one profile about its run, for people. Its JSON form is part of
// the output of `berth explain deschedule`.
type StrategyReport struct {
	Profile  string `json:"profile"`
	Strategy string `json:"strategy"`
	// Picked is how many pods it picked.
	Picked int `json:"picked"`
	// Says explains why it picked none, and which pods were left out before it picked. It is empty if there is
	// nothing to add to the picked pods.
	Says []string `json:"says,omitempty"`
	// Nodes holds the strategy's judgement of each node, by name; only with Input.Kept, and only for strategies
	// that judge nodes.
	Nodes map[string]string `json:"nodes,omitempty"`
}
