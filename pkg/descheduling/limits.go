package descheduling

import "github.com/berth-scheduler/berth/pkg/descheduling/policy"

// Limits counts the evictions of a run against the policy's limits. It is not safe for concurrent use. Counts are
// accepted evictions, whether or not they succeed later.
type Limits struct {
	policy.Limits
	perNode, perNamespace map[string]uint
	total                 uint
}

// NewLimits returns limits with all counts at zero.
func NewLimits(l policy.Limits) *Limits {
	return &Limits{Limits: l, perNode: map[string]uint{}, perNamespace: map[string]uint{}}
}

// Refuse checks total, node and namespace, in upstream's order (evictions.EvictPod); an empty Refusal means that
// one more eviction is allowed. It counts nothing.
func (l *Limits) Refuse(node, namespace string) Refusal {
	reached := func(limit *uint, used uint) bool { return limit != nil && used >= *limit }
	switch {
	case reached(l.Total, l.total):
		return TotalLimit
	case reached(l.PerNode, l.perNode[node]):
		return NodeLimit
	case reached(l.PerNamespace, l.perNamespace[namespace]):
		return NamespaceLimit
	default:
		return ""
	}
}

// Take counts one accepted eviction of a pod on the node, in the namespace.
func (l *Limits) Take(node, namespace string) {
	l.perNode[node]++
	l.perNamespace[namespace]++
	l.total++
}

// Collect runs the policy and accepts what its limits allow: the evictions of one cycle if every one of them
// succeeds.
func Collect(in Input) ([]Candidate, Outcome) {
	var accepted []Candidate
	limits := NewLimits(in.Policy.Limits)
	out := Run(in, func(c Candidate, _ *Guard) (string, Refusal) {
		if r := limits.Refuse(c.Pod.NodeName, c.Pod.Namespace); r != "" {
			return "", r
		}
		limits.Take(c.Pod.NodeName, c.Pod.Namespace)
		accepted = append(accepted, c)
		return "", ""
	})
	return accepted, out
}
