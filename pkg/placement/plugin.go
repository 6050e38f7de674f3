package placement

import (
	"github.com/berth-scheduler/berth/pkg/state"
)

// Code is what a rule says about one node. The set is closed; what should not happen is a
// Go error instead.
type Code uint8

const (
	// Success lets the node pass.
	Success Code = iota
	// Unschedulable rejects the node, but would perhaps not if pods on it were gone.
	Unschedulable
	// UnschedulableAndUnresolvable rejects the node whatever pods leave it.
	UnschedulableAndUnresolvable
)

// String is upstream's name of the code.
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

// Scores are normalised to MinScore..MaxScore before weights apply.
const (
	MinScore int64 = 0
	MaxScore int64 = 100
)

// Plugin is one rule about where pods may go. It is configured once per profile, compiled
// once per pod and then asked about nodes. Implementations are immutable and safe for
// concurrent use.
type Plugin interface {
	// Name is upstream's plugin name, as used in configuration and messages.
	Name() string
	// Compile says what the rule has to do with this pod, in a cluster with these objects.
	// An error is for what cannot be: it fails the attempt, unless the rule takes no part in
	// narrowing; Compiled then is what the rule has to say at the other points.
	Compile(pod *state.Pod, objects Objects) (Compiled, error)
	// Events lists the changes that could turn this rule's no into a yes, for any pod.
	Events() []Event
	// Hint tells whether a change that Events lists could turn the no into a yes for this
	// pod. A wrong true costs an attempt, a wrong false leaves the pod waiting.
	Hint(pod *state.Pod, c Change) bool
}

// Admitter is a Plugin that has its say before all that are none: upstream asks it before it queues
// a pod (PreEnqueue).
type Admitter interface {
	// Admit says why the pod is rejected on all nodes; empty if it is not.
	Admit(pod *state.Pod, objects Objects) (rejection string)
}

// Expecter is a Plugin that knows of things which are made for pods.
type Expecter interface {
	// Expects says what is being made for a pod and is not there yet, so that trying it is of no use;
	// empty for nothing. What the plugin listens to tells when that may have changed.
	Expects(pod *state.Pod, objects Objects) (what string)
}

// Compiled is one rule about one pod. The zero value is a rule that does not apply.
type Compiled struct {
	// Rejection, if not empty, rejects the pod on all nodes at once, unresolvably.
	Rejection string
	// OnlyNodes, if not nil, are the only node names worth looking at, in any order.
	OnlyNodes []string
	// Filter is nil when no node can fail.
	Filter Filter
	// Scorer is nil when all nodes are alike; the rule then takes no part in totals.
	// ScorerErr fails the attempt, but only if nodes have to be compared.
	Scorer    Scorer
	ScorerErr error
	// Normalize brings the raw scores of all feasible nodes to MinScore..MaxScore, in
	// place; nil when they are already, or when the scorer is a Normalizer.
	Normalize func(scores []int64)
}

// Filter tells whether nodes pass.
type Filter interface {
	// Check is called for every node: what can be worked out once belongs in Compile.
	Check(n *state.NodeInfo) Code
	// Explain returns why a node fails, one or more reasons in the form "node(s) ..." or
	// "Insufficient cpu". Called only for nodes that do fail.
	Explain(n *state.NodeInfo) []string
}

// Scorer gives nodes raw scores, more being better unless Normalize turns it round.
type Scorer interface {
	Score(n *state.NodeInfo) int64
}

// ClusterFilter is a Filter that must see all nodes before it can judge one. Survey is
// called once per evaluation and returns the filter to use in it.
type ClusterFilter interface {
	Filter
	Survey(all []*state.NodeInfo) Filter
}

// ClusterScorer is the same for a Scorer; feasible are the candidates that passed
// the filters. A nil Scorer says that all nodes are alike after all.
type ClusterScorer interface {
	Scorer
	Survey(all, feasible []*state.NodeInfo) Scorer
}

// Normalizer is a Scorer that takes the place of Compiled.Normalize, to use what Survey
// found out. scores are those of the feasible nodes, in their order.
type Normalizer interface {
	Scorer
	Normalize(scores []int64)
}

// normalizeToMax scales the largest score to MaxScore; all zero stays so. Source:
// plugins/helper/normalize_score.go DefaultNormalizeScore.
func normalizeToMax(scores []int64) {
	top := maxScore(scores)
	if top == 0 {
		return
	}
	for i, s := range scores {
		scores[i] = MaxScore * s / top
	}
}

// normalizeReversed is normalizeToMax with the smallest raw score best.
func normalizeReversed(scores []int64) {
	top := maxScore(scores)
	for i, s := range scores {
		if top == 0 {
			scores[i] = MaxScore
		} else {
			scores[i] = MaxScore - MaxScore*s/top
		}
	}
}

func maxScore(scores []int64) int64 {
	var top int64
	for _, s := range scores {
		top = max(top, s)
	}
	return top
}
