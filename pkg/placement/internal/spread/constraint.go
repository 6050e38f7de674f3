package spread

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"

	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Constraint is one constraint of a pod.
type Constraint struct {
	// Key is the topology key; its values are the domains.
	Key string
	// MaxSkew is the largest allowed difference, 1 or more; MinDomains is 1 unless the constraint names a larger
	// number.
	MaxSkew, MinDomains int
	Selector            labels.Selector
	// honorAffinity and honorTaints leave out nodes that the pod's node affinity does not match, or with taints
	// that it does not tolerate.
	honorAffinity, honorTaints bool
}

// newConstraints parses the constraints with one action. podLabels are the pod's, for matchLabelKeys.
func newConstraints(
	from []corev1.TopologySpreadConstraint, podLabels map[string]string, action corev1.UnsatisfiableConstraintAction,
) ([]Constraint, error) {
	var list []Constraint
	for _, c := range from {
		if c.WhenUnsatisfiable != action {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(c.LabelSelector)
		if err != nil {
			return nil, fmt.Errorf("labelSelector of the constraint over %s: %w", c.TopologyKey, err)
		}
		s := Constraint{
			Key: c.TopologyKey, MaxSkew: int(c.MaxSkew), MinDomains: 1,
			Selector:      withKeys(selector, c.MatchLabelKeys, podLabels),
			honorAffinity: c.NodeAffinityPolicy == nil || *c.NodeAffinityPolicy == corev1.NodeInclusionPolicyHonor,
			honorTaints:   c.NodeTaintsPolicy != nil && *c.NodeTaintsPolicy == corev1.NodeInclusionPolicyHonor,
		}
		if c.MinDomains != nil {
			s.MinDomains = int(*c.MinDomains)
		}
		list = append(list, s)
	}
	return list, nil
}

// withKeys narrows a selector to pods that have the same values for keys as the pod. (An API server with the gate
// MatchLabelKeysInPodTopologySpreadSelectorMerge has already done so, and then this changes nothing.) A selector
// that selects nothing stays one.
func withKeys(selector labels.Selector, keys []string, podLabels map[string]string) labels.Selector {
	same := labels.Set{}
	for _, key := range keys {
		if value, ok := podLabels[key]; ok {
			same[key] = value
		}
	}
	requirements, selects := selector.Requirements()
	if len(same) == 0 || !selects {
		return selector
	}
	return same.AsSelector().Add(requirements...)
}

// Spread holds the constraints with one action, with what is needed to count by them.
type Spread struct {
	Pod         *state.Pod
	Constraints []Constraint
	affinity    nodeaffinity.RequiredNodeAffinity
}

// newSpread returns what is needed to count by the constraints of a pod.
func newSpread(pod *state.Pod, constraints []Constraint) Spread {
	return Spread{Pod: pod, Constraints: constraints, affinity: nodeaffinity.GetRequiredNodeAffinity(pod.Template)}
}

// HasKeys reports whether a node has the topology keys of all constraints.
func HasKeys(nodeLabels map[string]string, constraints []Constraint) bool {
	for i := range constraints {
		if _, ok := nodeLabels[constraints[i].Key]; !ok {
			return false
		}
	}
	return true
}

// Includes reports whether a constraint counts a node. Affinity that cannot be parsed matches no node. Source:
// matchNodeInclusionPolicies in podtopologyspread/common.go.
func (s *Spread) Includes(c *Constraint, n *state.Node) bool {
	if c.honorAffinity {
		if match, _ := s.affinity.Match(n.Object); !match {
			return false
		}
	}
	return !c.honorTaints || !nodes.HasUntolerated(n, s.Pod.Template.Spec.Tolerations)
}

// count returns how many pods on a node a constraint counts. An empty selector counts none, see Counts.
func (s *Spread) count(c *Constraint, n *state.NodeInfo) int {
	if c.Selector.Empty() {
		return 0
	}
	count := 0
	for p := range n.Pods() {
		if s.Counts(c, p) {
			count++
		}
	}
	return count
}

// Counts reports whether a constraint may count a pod: one in the pod's namespace that is selected and not being
// deleted. An empty selector counts no pods, although it selects all. Source: countPodsMatchSelector in
// podtopologyspread/common.go.
func (s *Spread) Counts(c *Constraint, p *state.Pod) bool {
	return p.Namespace == s.Pod.Namespace && !p.Deleting && p.Selectable() && !c.Selector.Empty() &&
		state.MayMatch(c.Selector, p.Template.Labels)
}

// unsure reports whether it is uncertain that a pod counts, because some of its labels have been cut. Such a pod
// counts for its own domain, but not for the minimum over all domains.
func (s *Spread) unsure(c *Constraint, p *state.Pod) bool {
	return p.Selectable() && !state.MustMatch(c.Selector, p.Template.Labels) && s.Counts(c, p)
}

// CountsKind is the counterpart of counts for pods of a kind.
func (s *Spread) CountsKind(c *Constraint, k *state.PodClass) bool {
	return k.Namespace == s.Pod.Namespace && !k.Deleting && !c.Selector.Empty() &&
		k.MayMatch(c.Selector)
}
