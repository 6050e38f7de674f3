package podaffinity

import (
	"math"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Scorer prefers the domains of pods that the pod prefers to be near. Raw scores are sums of weights and may be
// negative; Normalize maps the lowest of the feasible nodes to 0 and the highest to 100. Source:
// plugins/interpodaffinity/scoring.go.
type Scorer struct {
	Party
	// HardWeight is the weight of a required affinity term of an existing pod that the pod matches; 0 for none.
	HardWeight int64
	// Attracted and repelled are the pod's own preferred terms.
	Attracted, Repelled []Term
	// weights is the result of Survey: the sum of the weights per topology key and domain.
	weights map[string]map[string]int64
}

// Survey implements ClusterScorer. If no term matches a pod, all nodes are alike, and the rule contributes
// nothing. It looks at all pods only if the pod has preferred terms; otherwise only at pods with terms, which
// nodes list separately.
func (s *Scorer) Survey(all, _ []*state.NodeInfo) rule.Scorer {
	surveyed := *s
	surveyed.weights = map[string]map[string]int64{}
	prefers := len(s.Attracted)+len(s.Repelled) > 0
	for _, n := range all {
		if prefers {
			surveyed.addOwn(n, s.Attracted, 1)
			surveyed.addOwn(n, s.Repelled, -1)
		}
		for other := range n.AffinityPods() {
			surveyed.addExisting(n, other.Terms)
		}
	}
	if len(surveyed.weights) == 0 {
		return nil
	}
	return &surveyed
}

// addOwn adds the pods on a node that match terms of this pod.
func (s *Scorer) addOwn(n *state.NodeInfo, terms []Term, sign int64) {
	for i := range terms {
		t, count := &terms[i], int64(0)
		for other := range n.Pods() {
			if t.MatchesPod(other) {
				count++
			}
		}
		if count > 0 {
			s.add(n, t.AffinityTerm, sign*int64(t.Weight)*count)
		}
	}
}

// addExisting adds the terms of a pod on a node that match this pod.
func (s *Scorer) addExisting(n *state.NodeInfo, theirs *state.PodTerms) {
	if s.HardWeight > 0 {
		for i := range theirs.RequiredAffinity {
			s.addIfMatched(n, &theirs.RequiredAffinity[i], s.HardWeight)
		}
	}
	for i := range theirs.PreferredAffinity {
		t := &theirs.PreferredAffinity[i]
		s.addIfMatched(n, t, int64(t.Weight))
	}
	for i := range theirs.PreferredAntiAffinity {
		t := &theirs.PreferredAntiAffinity[i]
		s.addIfMatched(n, t, -int64(t.Weight))
	}
}

// addIfMatched adds the weight of another pod's term if the term matches this pod.
func (s *Scorer) addIfMatched(n *state.NodeInfo, t *state.AffinityTerm, weight int64) {
	if s.MatchedBy(t) {
		s.add(n, t, weight)
	}
}

// add adds a weight to the node's domain of a term. A sum of 0 is kept as an entry.
func (s *Scorer) add(n *state.NodeInfo, t *state.AffinityTerm, weight int64) {
	value, ok := n.Node.Object.Labels[t.TopologyKey]
	if !ok {
		return
	}
	if s.weights[t.TopologyKey] == nil {
		s.weights[t.TopologyKey] = map[string]int64{}
	}
	s.weights[t.TopologyKey][value] += weight
}

// Score implements Scorer: the sum over the node's domains, negative where the pod is repelled.
func (s *Scorer) Score(n *state.NodeInfo) int64 {
	var sum int64
	for key, weights := range s.weights {
		if value, ok := n.Node.Object.Labels[key]; ok {
			sum += weights[value]
		}
	}
	return sum
}

// Normalize implements Normalizer: the lowest raw score becomes MinScore and the highest MaxScore; if all are
// equal, all become MinScore.
func (*Scorer) Normalize(scores []int64) {
	low, high := int64(math.MaxInt64), int64(math.MinInt64)
	for _, score := range scores {
		low, high = min(low, score), max(high, score)
	}
	for i, score := range scores {
		if high == low {
			scores[i] = rule.MinScore
			continue
		}
		scores[i] = int64(float64(rule.MaxScore) * (float64(score-low) / float64(high-low)))
	}
}
