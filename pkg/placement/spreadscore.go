package placement

import (
	"math"

	corev1 "k8s.io/api/core/v1"

	"github.com/berth-scheduler/berth/pkg/state"
)

// spreadScorer prefers nodes in domains with few pods. Source: plugins/podtopologyspread/scoring.go.
type spreadScorer struct {
	spread
	// needAll leaves out nodes that lack the key of any constraint: they neither count nor score.
	needAll bool

	// Results of Survey: per constraint, the pods per domain (of feasible nodes; none for constraints over
	// hostnames, which Score counts) and the weight of a pod; per feasible node, whether it is left out.
	pods    []map[string]int64
	weights []float64
	ignored []bool
}

// Survey implements ClusterScorer. A node without the label counts for the domain "", but scores nothing for it
// (see Score).
func (s *spreadScorer) Survey(all, feasible []*state.NodeInfo) Scorer {
	surveyed := *s
	surveyed.ignored = make([]bool, len(feasible))
	scored := 0
	for i, n := range feasible {
		surveyed.ignored[i] = s.leavesOut(n)
		if !surveyed.ignored[i] {
			scored++
		}
	}
	surveyed.pods = make([]map[string]int64, len(s.constraints))
	surveyed.weights = make([]float64, len(s.constraints))
	for i := range s.constraints {
		c, domains := &s.constraints[i], scored
		if c.key != corev1.LabelHostname {
			surveyed.pods[i] = surveyed.countDomains(c, all, feasible)
			domains = len(surveyed.pods[i])
		}
		surveyed.weights[i] = math.Log(float64(domains + 2))
	}
	return &surveyed
}

func (s *spreadScorer) leavesOut(n *state.NodeInfo) bool {
	return s.needAll && !hasKeys(n.Node.Object.Labels, s.constraints)
}

// countDomains counts, on all nodes, the pods in the domains that have a feasible node.
func (s *spreadScorer) countDomains(c *spreadConstraint, all, feasible []*state.NodeInfo) map[string]int64 {
	pods := map[string]int64{}
	for i, n := range feasible {
		if !s.ignored[i] {
			pods[n.Node.Object.Labels[c.key]] = 0
		}
	}
	for _, n := range all {
		if s.leavesOut(n) || !s.includes(c, n.Node) {
			continue
		}
		value := n.Node.Object.Labels[c.key]
		if before, ok := pods[value]; ok {
			pods[value] = before + int64(s.count(c, n))
		}
	}
	return pods
}

// Score sums over the constraints the pods in the domain times the weight. The weight grows with the number of
// domains, so that constraints with few domains do not lose influence. maxSkew-1 deliberately reduces the
// differences between domains.
func (s *spreadScorer) Score(n *state.NodeInfo) int64 {
	if s.leavesOut(n) {
		return 0
	}
	var score float64
	for i := range s.constraints {
		c := &s.constraints[i]
		value, ok := n.Node.Object.Labels[c.key]
		if !ok {
			continue
		}
		var count int64
		if c.key == corev1.LabelHostname {
			count = int64(s.count(c, n))
		} else {
			count = s.pods[i][value]
		}
		score += float64(count)*s.weights[i] + float64(c.maxSkew-1)
	}
	return int64(math.Round(score))
}

// Normalize implements Normalizer: fewer pods are better, and nodes that are left out get nothing.
func (s *spreadScorer) Normalize(scores []int64) {
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
			scores[i] = MaxScore
		default:
			scores[i] = MaxScore * (high + low - score) / high
		}
	}
}
