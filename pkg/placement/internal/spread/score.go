package spread

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Scorer prefers nodes in domains with few pods. Raw scores count pods, so that the lowest is best; Normalize
// reverses them. Source: plugins/podtopologyspread/scoring.go.
type Scorer struct {
	Spread
	// needAll leaves out nodes that lack the key of any constraint: they neither count nor score.
	needAll bool

	// Results of Survey: per constraint, the pods per domain (of feasible nodes; none for constraints over
	// hostnames, which Score counts) and the weight of a pod; per feasible node, whether it is left out.
	pods    []map[string]int64
	weights []float64
	ignored []bool
}

// Survey implements ClusterScorer. A node without the label counts for the domain "", but scores nothing for it
// (see Score). Only domains with a feasible node count: the others cannot be chosen.
func (s *Scorer) Survey(all, feasible []*state.NodeInfo) rule.Scorer {
	surveyed := *s
	surveyed.ignored = make([]bool, len(feasible))
	scored := 0
	for i, n := range feasible {
		surveyed.ignored[i] = s.LeavesOut(n)
		if !surveyed.ignored[i] {
			scored++
		}
	}
	surveyed.pods = make([]map[string]int64, len(s.Constraints))
	surveyed.weights = make([]float64, len(s.Constraints))
	for i := range s.Constraints {
		c, domains := &s.Constraints[i], scored
		if c.Key != corev1.LabelHostname {
			surveyed.pods[i] = surveyed.countDomains(c, all, feasible)
			domains = len(surveyed.pods[i])
		}
		surveyed.weights[i] = math.Log(float64(domains + 2))
	}
	return &surveyed
}

// LeavesOut reports whether a node has no score because it is in no domain of some constraint.
func (s *Scorer) LeavesOut(n *state.NodeInfo) bool {
	return s.needAll && !HasKeys(n.Node.Object.Labels, s.Constraints)
}

// countDomains counts, on all nodes, the pods in the domains that have a feasible node.
func (s *Scorer) countDomains(c *Constraint, all, feasible []*state.NodeInfo) map[string]int64 {
	pods := map[string]int64{}
	for i, n := range feasible {
		if !s.ignored[i] {
			pods[n.Node.Object.Labels[c.Key]] = 0
		}
	}
	for _, n := range all {
		if s.LeavesOut(n) || !s.Includes(c, n.Node) {
			continue
		}
		value := n.Node.Object.Labels[c.Key]
		if before, ok := pods[value]; ok {
			pods[value] = before + int64(s.count(c, n))
		}
	}
	return pods
}

// Score sums over the constraints the pods in the domain times the weight. The weight grows with the number of
// domains, so that constraints with few domains do not lose influence. maxSkew-1 deliberately reduces the
// differences between domains. Source: scoreForCount in scoring.go.
//
// Example: one constraint over three zones with 4, 2 and 0 pods, maxSkew 1. The weight is ln(5) = 1.61, the raw
// scores are 6, 3 and 0, and Normalize makes them 0, 50 and 100.
func (s *Scorer) Score(n *state.NodeInfo) int64 {
	if s.LeavesOut(n) {
		return 0
	}
	var score float64
	for i := range s.Constraints {
		c := &s.Constraints[i]
		value, ok := n.Node.Object.Labels[c.Key]
		if !ok {
			continue
		}
		var count int64
		if c.Key == corev1.LabelHostname {
			count = int64(s.count(c, n))
		} else {
			count = s.pods[i][value]
		}
		score += float64(count)*s.weights[i] + float64(c.MaxSkew-1)
	}
	return int64(math.Round(score))
}

// Normalize implements Normalizer: fewer pods are better, and nodes that are left out get nothing. The formula is
// 100 * (high + low - score) / high. If no node has a pod, all get 100.
func (s *Scorer) Normalize(scores []int64) {
	low, high := int64(math.MaxInt64), int64(0)
	for i, score := range scores {
		if !s.ignored[i] {
			low, high = min(low, score), max(high, score)
		}
	}
	for i, score := range scores {
		switch {
		case s.ignored[i]:
			scores[i] = 0
		case high == 0:
			scores[i] = rule.MaxScore
		default:
			scores[i] = rule.MaxScore * (high + low - score) / high
		}
	}
}
