package spread

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	configv1 "k8s.io/kube-scheduler/config/v1"

	"github.com/berth-scheduler/berth/pkg/placement/internal/nodes"
	"github.com/berth-scheduler/berth/pkg/placement/names"
	"github.com/berth-scheduler/berth/pkg/placement/rule"
	"github.com/berth-scheduler/berth/pkg/state"
)

// Plugin distributes similar pods evenly over the domains of a topology: hard constraints (DoNotSchedule)
// filter, soft ones (ScheduleAnyway) score. Pods without constraints get the profile's defaults, with selectors
// from their services and controllers. Source: plugins/podtopologyspread.
type Plugin struct {
	Defaults []corev1.TopologySpreadConstraint
	// system reports that the defaults are upstream's own; nodes that lack a key then count nevertheless.
	system bool
}

// systemSpread returns the defaults of defaultingType System. Source: plugin.go systemDefaultConstraints.
func systemSpread() []corev1.TopologySpreadConstraint {
	return []corev1.TopologySpreadConstraint{
		{TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 3},
		{TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.ScheduleAnyway, MaxSkew: 5},
	}
}

// New is the factory of PodTopologySpread.
func New(args runtime.Object) (rule.Plugin, error) {
	a, err := rule.Args[configv1.PodTopologySpreadArgs](args)
	if err != nil {
		return nil, err
	}
	p := Plugin{Defaults: a.DefaultConstraints}
	switch a.DefaultingType {
	case configv1.ListDefaulting:
	case configv1.SystemDefaulting, "":
		if len(a.DefaultConstraints) > 0 {
			return nil, fmt.Errorf("defaultConstraints has %d entries, want none unless defaultingType is List",
				len(a.DefaultConstraints))
		}
		p.Defaults, p.system = systemSpread(), true
	default:
		return nil, fmt.Errorf("defaultingType is %q, want System or List", a.DefaultingType)
	}
	return p, checkSpread(p.Defaults)
}

// checkSpread checks what the evaluation of defaults assumes. Package config checks files more strictly; profiles
// can be made without one.
func checkSpread(defaults []corev1.TopologySpreadConstraint) error {
	var errs []error
	for i, c := range defaults {
		wrong := func(field string, value any, want string) {
			errs = append(errs, fmt.Errorf("defaultConstraints[%d].%s is %v, want %s", i, field, value, want))
		}
		if c.MaxSkew <= 0 {
			wrong("maxSkew", c.MaxSkew, "1 or more")
		}
		if c.TopologyKey == "" {
			wrong("topologyKey", "empty", "a label's key")
		}
		if c.WhenUnsatisfiable != corev1.DoNotSchedule && c.WhenUnsatisfiable != corev1.ScheduleAnyway {
			wrong("whenUnsatisfiable", c.WhenUnsatisfiable, "DoNotSchedule or ScheduleAnyway")
		}
		if c.LabelSelector != nil {
			wrong("labelSelector", "set", "none: it comes from what a pod belongs to")
		}
	}
	return errors.Join(errs...)
}

// Name implements Plugin.
func (Plugin) Name() string { return names.PodTopologySpread }

// Compile implements Plugin. Constraints that cannot be parsed fail the attempt if they are hard, and scoring if
// they are soft.
func (p Plugin) Compile(pod *state.Pod, objects rule.Objects) (rule.Compiled, error) {
	hard, err := p.constraints(pod, objects, corev1.DoNotSchedule)
	soft, softErr := p.constraints(pod, objects, corev1.ScheduleAnyway)
	c := rule.Compiled{ScorerErr: softErr}
	if len(hard) > 0 {
		c.Filter = &Filter{Spread: newSpread(pod, hard)}
	}
	if len(soft) > 0 {
		needAll := !p.system || len(pod.Template.Spec.TopologySpreadConstraints) > 0
		c.Scorer = &Scorer{Spread: newSpread(pod, soft), needAll: needAll}
	}
	return c, err
}

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

// constraints returns the pod's own constraints with this action or, if it has no constraints at all, the profile's
// defaults. Defaults do not apply if no selector can be derived for them.
func (p Plugin) constraints(
	pod *state.Pod, objects rule.Objects, action corev1.UnsatisfiableConstraintAction,
) ([]Constraint, error) {
	if own := pod.Template.Spec.TopologySpreadConstraints; len(own) > 0 {
		return newConstraints(own, pod.Template.Labels, action)
	}
	list, err := newConstraints(p.Defaults, pod.Template.Labels, action)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	selector := DefaultSelector(pod, objects)
	if selector.Empty() {
		return nil, nil
	}
	for i := range list {
		list[i].Selector = selector
	}
	return list, nil
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
func (s *Spread) CountsKind(c *Constraint, k *state.Kind) bool {
	return k.Namespace == s.Pod.Namespace && !k.Deleting && !c.Selector.Empty() &&
		k.MayMatch(c.Selector)
}
