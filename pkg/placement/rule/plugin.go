package rule

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// Code is the result of a rule for one node. The set is closed; unexpected failures are Go errors instead. Larger
// codes are worse, so that the code of several checks is their maximum.
type Code uint8

// The codes, in the order of severity.
const (
	// Success lets the node pass.
	Success Code = iota
	// Unschedulable rejects the node, but might not if pods on it were gone.
	Unschedulable
	// UnschedulableAndUnresolvable rejects the node whichever pods leave it.
	UnschedulableAndUnresolvable
)

// String returns upstream's name of the code.
func (c Code) String() string {
	switch c {
	case Success:
		return "Success"
	case Unschedulable:
		return "Unschedulable"
	default:
		return "UnschedulableAndUnresolvable"
	}
}

// Scores are normalised to MinScore..MaxScore before weights are applied. Source: framework.MaxNodeScore.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

// Plugin is one rule about where pods may be placed. It is configured once per profile, compiled once per pod and
// then evaluated on nodes. Implementations are immutable and safe for concurrent use.
type Plugin interface {
	// Name is upstream's plugin name, as used in configuration and messages.
	Name() string
	// Compile returns how the rule applies to this pod, in a cluster with these objects. An error means that the
	// rule cannot be applied. It fails the attempt, unless the rule is not enabled for narrowing; Compiled then
	// holds the rule's contribution at the other extension points.
	Compile(pod *state.Pod, objects Objects) (Compiled, error)
	// Events lists the changes that could turn this rule's rejection of any pod into a pass.
	Events() []Event
	// Hint reports whether a change that Events lists could turn the rejection of this pod into a pass. A wrong
	// true costs an attempt; a wrong false leaves the pod waiting.
	Hint(pod *state.Pod, c Change) bool
}

// Admitter is a Plugin that is evaluated before all plugins that are not Admitters: upstream evaluates it before it
// queues a pod (PreEnqueue).
type Admitter interface {
	// Admit returns why the pod is rejected on all nodes; empty if it is not.
	Admit(pod *state.Pod, objects Objects) (rejection string)
}

// Expecter is a Plugin that knows of objects that are created for pods.
type Expecter interface {
	// Expects names an object that is being created for a pod and does not exist yet, so that trying the pod is
	// useless; empty for none. The events that the plugin listens to include those that may change the result.
	Expects(pod *state.Pod, objects Objects) (what string)
}

// Compiled is one rule compiled for one pod. The zero value is a rule that does not apply.
type Compiled struct {
	// Rejection, if not empty, rejects the pod on all nodes at once, unresolvably.
	Rejection string
	// OnlyNodes, if not nil, holds the only node names that can pass, in any order.
	OnlyNodes []string
	// Filter is nil when no node can fail.
	Filter Filter
	// Scorer is nil when all nodes are alike; the rule then does not contribute to totals. ScorerErr fails the
	// attempt, but only if nodes have to be compared.
	Scorer    Scorer
	ScorerErr error
	// Normalize scales the raw scores of all feasible nodes to MinScore..MaxScore, in place; nil when they already
	// are in that range, or when the scorer is a Normalizer.
	Normalize func(scores []int64)
}

// Filter decides which nodes pass.
type Filter interface {
	// Check is called for every node: whatever can be computed once belongs in Compile.
	Check(n *state.NodeInfo) Code
	// Explain returns why a node fails: one or more reasons in the form "node(s) ..." or "Insufficient cpu". It is
	// called only for nodes that fail.
	Explain(n *state.NodeInfo) []string
}

// Scorer gives nodes raw scores; higher is better unless Normalize reverses them.
type Scorer interface {
	Score(n *state.NodeInfo) int64
}

// ClusterFilter is a Filter that must see all nodes before it can judge one. Survey is
// called once per evaluation and returns the filter to use in it.
type ClusterFilter interface {
	Filter
	Survey(all []*state.NodeInfo) Filter
}

// ClusterScorer is the same for a Scorer; feasible holds the candidates that passed the filters. A nil Scorer means
// that all nodes are alike after all.
type ClusterScorer interface {
	Scorer
	Survey(all, feasible []*state.NodeInfo) Scorer
}

// Normalizer is a Scorer that replaces Compiled.Normalize, so that it can use results of Survey. scores are those
// of the feasible nodes, in their order.
type Normalizer interface {
	Scorer
	Normalize(scores []int64)
}

// NormalizeToMax scales the largest score to MaxScore; if all are zero, they stay zero. Source:
// plugins/helper/normalize_score.go DefaultNormalizeScore.
func NormalizeToMax(scores []int64) {
	top := maxScore(scores)
	if top == 0 {
		return
	}
	for i, s := range scores {
		scores[i] = MaxScore * s / top
	}
}

// NormalizeReversed is NormalizeToMax with the smallest raw score best.
func NormalizeReversed(scores []int64) {
	top := maxScore(scores)
	for i, s := range scores {
		if top == 0 {
			scores[i] = MaxScore
		} else {
			scores[i] = MaxScore - MaxScore*s/top
		}
	}
}

// maxScore returns the largest score, 0 if there is none above 0.
func maxScore(scores []int64) int64 {
	var top int64
	for _, s := range scores {
		top = max(top, s)
	}
	return top
}
