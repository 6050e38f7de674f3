package spread

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	configv1 "k8s.io/kube-scheduler/config/v1"

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
